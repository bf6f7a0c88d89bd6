# SPDX-License-Identifier: Apache-2.0
"""A torch job that reduces until it is ended, as reduce_forever.cc does under mpirun:

    torchrun --nproc-per-node=4 reduce_forever.py FOLDER SCHEME TIMEOUT

Every rank makes the file FOLDER/ready-RANK after its first steps, and dumps what it did last when it fails.
"""

import pathlib
import sys

import torch
import torch.distributed as dist

import topknot

folder, scheme, timeout = sys.argv[1:]
torch.set_num_threads(1)
dist.init_process_group("gloo")
with topknot.exit_codes():
    reduce = topknot.SparseAllreduce(scheme, density=0.1, timeout=float(timeout), flight=folder)
    step = 0
    while True:
        reduce(torch.randn(500))
        step += 1
        if step == 3:
            pathlib.Path(folder, f"ready-{dist.get_rank()}").touch()
