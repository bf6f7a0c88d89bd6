# SPDX-License-Identifier: Apache-2.0
"""Many ranks on one machine, which are forked, so that torch is loaded once:

    forked_ranks.py RANKS

Every rank makes a group, then opens a session and reduces. Prints by rank the threads it had with torch's group
alone, those it has with the session, and the names of the latter.
"""

import json
import os
import pathlib
import sys
import tempfile

import torch
import torch.distributed as dist

import topknot


def threads() -> list[str]:
    """Their names; one that ends meanwhile is none."""
    names = []
    for task in pathlib.Path("/proc/self/task").iterdir():
        try:
            names.append((task / "comm").read_text().strip())
        except OSError:
            continue
    return names


def rank_main(rank: int, count: int, folder: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=count)
    dist.barrier()
    before = len(threads())
    reduce = topknot.SparseAllreduce("knot", density=0.1, timeout=120)
    gradient = torch.full((1000,), float(rank))
    assert reduce(gradient).eq(0).logical_not().any()
    said = json.dumps([before, len(threads()), threads()])
    pathlib.Path(folder, f"said-{rank}").write_text(said)
    dist.barrier()


def main() -> int:
    count = int(sys.argv[1])
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(count):
            child = os.fork()
            if child == 0:
                try:
                    rank_main(rank, count, folder)
                except BaseException as error:
                    print(f"rank {rank}: {error!r}", file=sys.stderr, flush=True)
                    os._exit(1)
                os._exit(0)
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        if any(codes):
            return 1
        print(json.dumps([json.loads(pathlib.Path(folder, f"said-{rank}").read_text()) for rank in range(count)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
