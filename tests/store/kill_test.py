#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills a run that saves checkpoints at every call it makes to the system, with strace, and has
every such call refused. After each, the next run must find what was saved last, whole. Has two runs save
into one folder, too.

    kill_test.py SAVE_STEPS        exits 77 where strace cannot be used
"""

import collections
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

# What a refused call says.
CALLS = {
    "openat": "EMFILE", "fallocate": "ENOSPC", "write": "ENOSPC", "fsync": "EIO", "close": "EIO",
    "rename": "EIO", "renameat2": "EIO", "mkdir": "ENOSPC", "unlink": "EIO", "rmdir": "EIO",
}
DISK_FAILED = 74  # the exit code of a run whose folder another has taken
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # a kill does not care for the disk


def run(folder: Path, count: int, *strace: str) -> tuple[int, list[str]]:
    """The exit code and the lines of a run that saves `count` steps more."""
    tracer = ["strace", "-f", "-qq", *strace] if strace else []
    done = subprocess.run([*tracer, program, str(folder), str(count)], capture_output=True,
                          text=True, timeout=60)
    return done.returncode, done.stdout.split("\n")[:-1]


def numbers(word: str, lines: list[str]) -> list[int]:
    return [int(line.split()[1]) for line in lines if re.fullmatch(rf"{word} \d+", line)]


def most_calls(trace: str) -> dict[str, int]:
    """How often the busiest thread made each call; strace counts by thread."""
    counts = collections.Counter(re.findall(r"^(\d+) +(\w+)\(", trace, re.MULTILINE))
    most: dict[str, int] = {}
    for (_, call), count in counts.items():
        most[call] = max(most.get(call, 0), count)
    return most


class Kill(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY))
        self.addCleanup(shutil.rmtree, self.folder)
        self.start = self.folder / "start"
        self.assertEqual(run(self.start, 2)[0], 0)
        trace = self.folder / "trace"
        shutil.copytree(self.start, self.folder / "traced")
        run(self.folder / "traced", 1, "-o", str(trace), "-e", f"trace={','.join(CALLS)}")
        self.calls = most_calls(trace.read_text())

    def after(self, inject: str) -> None:
        """A run to which `inject` is done, and the run after it."""
        here = self.folder / "here"
        shutil.rmtree(here, ignore_errors=True)
        shutil.copytree(self.start, here)
        _, lines = run(here, 1, "-o", "/dev/null", "-e", f"inject={inject}")
        saved = max(numbers("saved", lines), default=2)
        code, lines = run(here, 0)
        self.assertEqual(code, 0, inject)
        self.assertGreaterEqual(numbers("from", lines)[0], saved, inject)
        left = sorted(path.name for path in here.iterdir())
        self.assertEqual([name for name in left if name.endswith(".tmp")], [], inject)

    def at_every_call(self, inject) -> None:
        for call in CALLS:
            self.assertIn(call, self.calls)
            for when in range(1, self.calls[call] + 1):
                self.after(f"{call}:{inject(call)}:when={when}")
        print(f"{sum(self.calls[call] for call in CALLS)} points of a save", file=sys.stderr)

    def test_at_every_call_leaves_what_was_saved(self):
        self.at_every_call(lambda call: "signal=KILL")

    def test_refusal_of_every_call_leaves_what_was_saved(self):
        self.at_every_call(lambda call: f"error={CALLS[call]}")

    def test_two_runs_at_once_leave_a_whole_checkpoint(self):
        for _ in range(10):
            here = self.folder / "here"
            shutil.rmtree(here, ignore_errors=True)
            shutil.copytree(self.start, here)
            both = [subprocess.Popen([program, str(here), "20"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    for _ in range(2)]
            codes = sorted(one.wait(60) for one in both)
            self.assertIn(codes, [[0, 0], [0, DISK_FAILED]])
            code, lines = run(here, 0)
            self.assertEqual(code, 0)
            self.assertGreaterEqual(numbers("from", lines)[0], 2)


def can_trace() -> bool:
    try:
        return subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True,
                              check=False).returncode == 0
    except FileNotFoundError:
        return False


if __name__ == "__main__":
    program = sys.argv.pop(1)
    if not can_trace():
        print("strace is not there, or may not trace")
        sys.exit(77)
    unittest.main(verbosity=2)  # with the reasons of what is skipped
