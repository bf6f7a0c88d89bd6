# SPDX-License-Identifier: Apache-2.0
"""The options of attach(), DistributedOptimizer() and SparseAllreduce(): those of the C++
engine, read from the binding, and two of the PyTorch package."""

import dataclasses
import difflib
import math
import operator
from typing import Any

from topknot import _core


def _field(name: str, default: Any, meaning: str) -> tuple[str, type, Any]:
    if isinstance(default, list):
        default = tuple(default)
    return name, type(default), dataclasses.field(default=default, metadata={"meaning": meaning})


_FIELDS = [_field(name, *entry) for name, entry in _core.options().items()] + [
    _field("exchange", "gradients", 'what the ranks agree on: "gradients" or "updates"'),
    _field("timeout", 60.0, "seconds until a rank that does not answer is given up"),
]


class _Methods:
    def check(self) -> None:
        """Refuses values that the engine would not understand as they are meant."""
        if self.steps_per_epoch < 0:
            raise _core.ConfigError(
                f"steps_per_epoch={self.steps_per_epoch} is no number of steps: it is 0, where it "
                "is not known, or more."
            )
        if self.exchange not in ("updates", "gradients"):
            raise _core.ConfigError(
                f'exchange={self.exchange!r} is neither "updates" nor "gradients".'
            )
        if not 0 <= self.clip < math.inf:
            raise _core.ConfigError(
                f"clip={self.clip} is no length of a gradient: it is 0, for any, or more."
            )
        if self.exchange == "updates" and self.memory.split(":")[0] not in ("", "residual"):
            raise _core.ConfigError(
                f'memory={self.memory!r} is for gradients: with exchange="updates" the '
                "optimizer comes first, and the memory is residual."
            )

        if self.exchange == "updates" and "lr=inside" in self.memory:
            raise _core.ConfigError(
                f'memory={self.memory!r} is for gradients: with exchange="updates" residuals are '
                "changes of the weights, which have the rate inside already."
            )

    def engine(self) -> dict[str, Any]:
        """What the binding takes."""
        values = {name: getattr(self, name) for name in _core.options()}
        values["rules"] = list(self.rules)
        if self.exchange == "updates":
            values["memory"] = self.memory or "residual"
            values["clip"] = 0.0  # gradients are clipped before the optimizer's step
        return values

    def texts(self) -> dict[str, str]:
        """By name, for comparison between ranks."""
        return {
            key: " ".join(value) if isinstance(value, tuple) else str(value)
            for key, value in dataclasses.asdict(self).items()
        }


Options = dataclasses.make_dataclass("Options", _FIELDS, bases=(_Methods,), frozen=True)


def make_options(caller: str, **given: Any) -> Options:
    """Where None is given the default counts. Raises TypeError for an unknown name."""
    kinds = {name: kind for name, kind, _ in _FIELDS}
    values = {}
    for name, value in given.items():
        if name not in kinds:
            near = difflib.get_close_matches(name, kinds, 1)
            raise TypeError(
                f"{caller}() got an unexpected keyword argument {name!r}"
                + (f"; nearest is {near[0]!r}." if near else ".")
            )
        if value is not None:
            values[name] = _converted(name, kinds[name], value)
    return Options(**values)


def _converted(name: str, kind: type, value: Any) -> Any:
    try:
        if kind is tuple:
            value = (value,) if isinstance(value, str) else tuple(value)
            if all(isinstance(one, str) for one in value):
                return value
        elif kind is bool:
            if value in (False, True):
                return bool(value)
        elif kind is int:
            return operator.index(value)
        elif kind is not str or isinstance(value, str):
            return kind(value)
    except (TypeError, ValueError):
        pass
    wanted = {tuple: "a list of texts", bool: "True or False", int: "a whole number",
              float: "a number", str: "a text"}  # fmt: skip
    raise _core.ConfigError(f"{name}={value!r} is not {wanted[kind]}.")


def options() -> dict[str, str]:
    """The options of attach(), DistributedOptimizer() and SparseAllreduce(), with a line on
    each."""
    return {name: field.metadata["meaning"] for name, _, field in _FIELDS}
