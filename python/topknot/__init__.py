# SPDX-License-Identifier: Apache-2.0
"""Top-k sparsification with error feedback, for data-parallel training over slow networks.

A script that has DistributedDataParallel adds one line:

    import topknot
    model = DistributedDataParallel(model)
    topknot.attach(model, density=0.01, optimizer=optimizer)

Without DDP, any torch optimizer exchanges its changes of the weights, every four steps unless told:

    optimizer = topknot.DistributedOptimizer(optimizer, model.named_parameters())
    ...                                       # train as before
    topknot.end_round(optimizer)              # before evaluation, checkpoints and the end

    attach                 for DistributedDataParallel: a communication hook
    DistributedOptimizer   any optimizer: exchanges its changes of the weights
    LocalSteps             DiLoCo and SparseLoCo: an exchange every so many steps
    end_round              brings the ranks to the same weights, between two exchanges
    settle                 at the end of training: applies the residuals
    SparseAllreduce        the plain operation on a flat tensor
    fsdp_all_reduce_hook   for fully_shard(): sparse between replicas
    state_dict, load_state_dict, gather_state_dict      residuals, for checkpoints
    advise                 which scheme to take for a model on a network, or that dense is best
    stats, scalars         bytes, density and times
    log_stats              writes them to TensorBoard, W&B or a Lightning logger
    exit_codes             ends a process whose peers are lost, with a code that says so
    schemes, options       what scheme= may be; the options of all of these
    topknot.lightning, topknot.accelerate, topknot.transformers
                           adapters: import topknot.lightning, ...
    topknot.device_kernels selection on a GPU: import topknot.device_kernels
    Error                  all exceptions: ConfigError, LinkError, DisagreementError, ContractError
"""

try:
    import torch
except ImportError as error:
    raise ImportError(
        "topknot needs torch, which is not installed here: pip install torch, then build "
        "topknot again by pip install ./python in its sources."
    ) from error

from topknot._built import TORCH as _BUILT_AGAINST

if torch.__version__.split("+")[0] != _BUILT_AGAINST:
    raise ImportError(
        f"topknot was built against torch {_BUILT_AGAINST}, but this is torch "
        f"{torch.__version__}: pip install torch=={_BUILT_AGAINST}, or build topknot again by "
        "pip install --force-reinstall --no-deps ./python in its sources."
    )

from topknot import _processor

_processor.limit_onednn()  # before torch computes anything

from topknot._core import (
    ConfigError,
    ContractError,
    DisagreementError,
    Error,
    LinkError,
)
from topknot._advice import Advice, advise
from topknot._exit_codes import exit_codes
from topknot._options import options
from topknot._session import (
    gather_state_dict,
    load_state_dict,
    schemes,
    state_dict,
)
from topknot._stats import log_stats, scalars, stats
from topknot.allreduce import SparseAllreduce, fsdp_all_reduce_hook
from topknot.ddp import attach
from topknot.local_steps import LocalSteps
from topknot.optimizer import DistributedOptimizer, end_round, settle, synchronize

__version__ = "0.1.0"
__all__ = [
    "Advice",
    "ConfigError",
    "ContractError",
    "DisagreementError",
    "DistributedOptimizer",
    "Error",
    "LinkError",
    "LocalSteps",
    "SparseAllreduce",
    "advise",
    "attach",
    "end_round",
    "exit_codes",
    "fsdp_all_reduce_hook",
    "gather_state_dict",
    "load_state_dict",
    "log_stats",
    "options",
    "scalars",
    "schemes",
    "settle",
    "state_dict",
    "stats",
    "synchronize",
]
