# SPDX-License-Identifier: Apache-2.0
"""What SECURITY.md says of sockets and threads under torch.distributed."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import environment

HERE = pathlib.Path(__file__).parent
RANKS = 2


def listens(python, folder: pathlib.Path, program: str) -> list[str]:
    """The calls of listen() in all ranks of a torchrun, and their addresses."""
    folder.mkdir()
    script = folder / "script.py"
    script.write_text("import torch, torch.distributed as dist\n"
                      'dist.init_process_group("gloo")\n'
                      f"{program}\n"
                      "dist.barrier()\n")
    done = subprocess.run(
        [python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}", "--no-python",
         "strace", "-ff", "-qq", "-e", "trace=listen,bind", "-o", folder / "calls", python, script],
        env=environment(), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    calls = "".join(path.read_text() for path in folder.glob("calls.*"))
    bound = re.findall(r"^bind\(.*inet_addr\(\"([0-9.]+)\"\)", calls, re.MULTILINE)
    assert set(bound) <= {"127.0.0.1"}, bound
    return re.findall(r"^listen\(.*= 0", calls, re.MULTILINE)


def test_under_torchrun_only_torch_listens(python, tmp_path):
    """A session listens as often as the group of torch's that it makes."""
    can = shutil.which("strace") and subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True)
    if not can or can.returncode != 0:
        pytest.skip("strace is not there, or may not trace")
    group = 'dist.new_group(backend="gloo")'
    session = 'import topknot\nreduce = topknot.SparseAllreduce("knot", density=0.1)\nreduce(torch.randn(1000))'
    none = len(listens(python, tmp_path / "none", ""))
    torch_alone = len(listens(python, tmp_path / "group", group))
    assert torch_alone > none > 0  # what listens is seen
    assert len(listens(python, tmp_path / "session", session)) == torch_alone


def test_threads_do_not_grow_with_the_ranks(python):
    """Of 64 ranks on one machine, either: the session's two beside the three of its Gloo group."""
    def run(count: int) -> list:
        done = subprocess.run([python, HERE / "forked_ranks.py", str(count)], env=environment(), capture_output=True,
                              text=True, timeout=600)
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout)

    few, many = run(2), run(64)
    print(many[0])
    assert {tuple(counts[:2]) for counts in many} == {tuple(few[0][:2])}, (few, many)
    before, now, names = many[0]
    assert now - before == 5, names
