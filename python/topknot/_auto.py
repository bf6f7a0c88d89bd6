# SPDX-License-Identifier: Apache-2.0
"""scheme="auto": dense or a sparse exchange, decided by exchanges that are measured when a session is
opened. All ranks take the same decision. docs/simulator.md has what is measured."""

import dataclasses
import warnings

import torch
import torch.distributed as dist

from topknot import _core
from topknot._agreement import shapes
from topknot._options import Options
from topknot._session import open_session

_SPARSE = "knot"
# What the dense side has nothing to do with.
_OF_SPARSE = ("memory", "compressor", "collective", "schedule", "density", "budget", "local_steps")


def is_auto(options: Options) -> bool:
    return options.scheme.split(":")[0] == "auto"


def decided(
    options: Options,
    group: dist.ProcessGroup | None,
    parameters: list[tuple[str, torch.nn.Parameter]],
    bucket_bytes: int = 25 << 20,
) -> Options:
    """`options` with the scheme that was decided for these parameters; as they are where their scheme
    is not "auto". All ranks call it."""
    if not is_auto(options):
        return options
    if options.collective.split(":")[0] == "dense":
        raise _core.ConfigError(
            'scheme="auto" chooses between dense and a sparse exchange, and the collective dense '
            'leaves no choice: take scheme="dense", or leave the collective out.'
        )
    _, colon, parameters_of_scheme = options.scheme.partition(":")
    sparse = dataclasses.replace(options, scheme=_SPARSE + colon + parameters_of_scheme)
    coordinates = sum(p.numel() for _, p in parameters)
    also = {"scheme": "auto", **shapes(parameters)}  # a rank that names it is told
    trial = open_session(group, sparse, coordinates, also)
    try:
        is_sparse, whole, reason = trial.core.choose(
            [(name, list(p.shape)) for name, p in parameters],
            bucket_bytes,
            sparse.split().local_steps,
        )
        rank = trial.core.rank
    finally:
        trial.core.close()
        dist.destroy_process_group(trial.group)
    if rank == 0:
        warnings.warn(f"topknot: {reason}", stacklevel=3)
    if is_sparse:
        return dataclasses.replace(sparse, whole=(*sparse.whole, *whole))
    return dense_side(options)


def dense_side(options: Options) -> Options:
    defaults = Options()
    unset = {name: getattr(defaults, name) for name in _OF_SPARSE}
    return dataclasses.replace(options, scheme="dense", **unset)
