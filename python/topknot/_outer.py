# SPDX-License-Identifier: Apache-2.0
"""The optimizer behind an exchange of local steps: SGD, with Nesterov's momentum where asked.

    last = momentum * last + mean
    weights -= lr * (mean + momentum * last)

The mean is the same on all ranks, and so is `last`. Every operation is rounded by itself, in the
order of the C++ trainer (src/job/optimizer.cc): the bits are the same. torch.optim.SGD would
multiply and add in one rounding.
"""

import math

import torch

from topknot import _core
from topknot._buckets import Bucket, NamedParameters


class Outer:
    def __init__(self, lr: float, momentum: float) -> None:
        if not 0 < lr < math.inf:
            raise _core.ConfigError(f"outer_lr={lr} cannot be: it is a number above 0.")
        if not 0 <= momentum < 1:
            raise _core.ConfigError(f"outer_momentum={momentum} is not in [0, 1).")
        self.lr = lr
        self.momentum = momentum
        self._last: dict[torch.nn.Parameter, torch.Tensor] = {}

    @property
    def is_plain(self) -> bool:
        """Whether weights move by the mean as it is."""
        return self.lr == 1 and self.momentum == 0

    def turn_into_move(self, bucket: Bucket) -> None:
        """Makes what is to be subtracted from the weights of the mean in `bucket`."""
        if self.is_plain:
            return
        for parameter, mean in bucket.places():
            if self.momentum > 0:
                last = self._last.setdefault(parameter, torch.zeros_like(mean))
                last.mul_(self.momentum).add_(mean)
                mean.add_(last * self.momentum)
            mean.mul_(self.lr)

    def save(self, parameters: NamedParameters) -> dict[str, torch.Tensor]:
        """The momentum by name. The same on all ranks."""
        return {name: self._last[p].clone() for name, p in parameters if p in self._last}

    def load(self, parameters: NamedParameters, saved: dict[str, torch.Tensor]) -> None:
        last = {}
        for name, parameter in parameters:
            if name not in saved:
                continue
            if saved[name].shape != parameter.shape:
                raise _core.ConfigError(
                    f"The outer momentum of {name} in this state has the shape "
                    f"{tuple(saved[name].shape)}, and the parameter {tuple(parameter.shape)}."
                )
            kind = torch.promote_types(torch.float32, parameter.dtype)
            last[parameter] = saved[name].to(parameter.device, kind, copy=True)
        self._last = last if self.momentum > 0 else {}
