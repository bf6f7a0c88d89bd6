# SPDX-License-Identifier: Apache-2.0
"""What the files of cases share: `main()` joins the job and calls the cases named."""

import datetime
import sys
import time

import torch
import torch.distributed as dist


def main(cases: dict) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    for name in sys.argv[1:]:
        start = time.monotonic()
        torch.manual_seed(1)
        cases[name]()
        dist.barrier()
        if dist.get_rank() == 0:
            print(f"{name}: {time.monotonic() - start:.1f} s")
    dist.destroy_process_group()


def rank() -> int:
    return dist.get_rank()


def size() -> int:
    return dist.get_world_size()


def gathered(tensor: torch.Tensor) -> list[torch.Tensor]:
    """By rank."""
    all_of_them = [torch.empty_like(tensor) for _ in range(size())]
    dist.all_gather(all_of_them, tensor)
    return all_of_them


def same_bits_everywhere(tensor: torch.Tensor) -> bool:
    return all(torch.equal(tensor, other) for other in gathered(tensor))


def refuses(kind, words: str, call) -> None:
    try:
        call()
    except kind as error:
        assert words in str(error), f"{words!r} is not in: {error}"
        return
    raise AssertionError(f"nothing was refused: {words}")
