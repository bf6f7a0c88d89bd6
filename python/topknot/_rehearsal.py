# SPDX-License-Identifier: Apache-2.0
"""The buckets of a DDP that goes on where another one ended.

DDP puts its buckets together anew behind the first backward pass, in the order in which gradients
came. A DDP that was just built therefore begins with other buckets than the one before had, and
would choose other coordinates. So the order is saved, and before the first backward DDP learns
it from a backward pass of zeros, one parameter after the other, that sends nothing.
"""

import torch
from torch.nn.parallel import DistributedDataParallel

from topknot import _core
from topknot._names import without_wrapper


def bucket_order(core: _core.Session) -> list[str]:
    """The names of all parameters as they are in the buckets; empty before the first backward."""
    _, *slots = core.totals()
    return [name for slot in slots for name in slot["parameters"]]


def rehearse(model: DistributedDataParallel, core: _core.Session, order: list[str]) -> None:
    """Gives a DDP that has had no backward the buckets that `order` leads to. All ranks call it.
    Does nothing where DDP keeps its first buckets, or where the model is another."""
    named = dict(without_wrapper(model.module).named_parameters())
    trained = {name for name, p in named.items() if p.requires_grad}
    if model.find_unused_parameters or model.static_graph or set(order) != trained:
        return
    if bucket_order(core):
        return
    gradients = [(p, p.grad) for p in named.values()]
    core.rehearse(True)
    try:
        with torch.enable_grad():
            model.reducer.prepare_for_backward([])
            for name in order:
                named[name].grad = None
                (named[name] * 0).sum().backward()
        model.reducer._rebuild_buckets()
    finally:
        core.rehearse(False)
        for parameter, gradient in gradients:
            parameter.grad = gradient
