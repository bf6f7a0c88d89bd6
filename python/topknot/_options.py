# SPDX-License-Identifier: Apache-2.0
"""The options of attach(), DistributedOptimizer() and SparseAllreduce(): those of the C++
engine, read from the binding, and some of the PyTorch package."""

import dataclasses
import difflib
import math
import operator
from typing import Any, NamedTuple

from topknot import _core


def _field(name: str, default: Any, meaning: str) -> tuple[str, type, Any]:
    if isinstance(default, list):
        default = tuple(default)
    return name, type(default), dataclasses.field(default=default, metadata={"meaning": meaning})


def _unset(name: str, kind: type, meaning: str) -> tuple[str, type, Any]:
    """One that is None where it was not given."""
    return name, kind, dataclasses.field(default=None, metadata={"meaning": meaning})


_ENGINE = _core.options()
DENSITY, _DENSITY_MEANING = _ENGINE["density"]
_FIELDS = [
    _unset(name, float, _DENSITY_MEANING) if name == "density" else _field(name, *entry)
    for name, entry in _ENGINE.items()
] + [
    _unset("budget", float, "with updates: bytes sent, as a share of those of dense training"),
    _unset("local_steps", int, "with updates: steps from one exchange to the next"),
    _field("exchange", "gradients", 'what the ranks agree on: "gradients" or "updates"'),
    _field(
        "select_on",
        "auto",
        "where tensors on a device are selected from: device, host, or auto: there where it can be",
    ),
    _field("timeout", 60.0, "seconds until a rank that does not answer is given up"),
    _field("flight", "", "folder in which a rank that fails leaves what it did last"),
]


# By scheme, whose name is the same with - and _.
_EXCHANGES = {one["name"].replace("_", "-"): one["exchange"] for one in _core.catalog()}


class Split(NamedTuple):
    """How an exchange spends its bytes."""

    local_steps: int
    density: float
    values: str  # wanted on the wire


class _Methods:
    def split(self) -> Split:
        """By the rule of topknot/budget.h for updates. Gradients, and schemes of others where
        nothing is set, are exchanged on every step, as published."""
        # A scheme that does not exist is refused once the ranks have compared their options.
        ours = _EXCHANGES.get(self.scheme.split(":")[0].replace("_", "-")) == "updates"
        spends = self.budget is not None or self.local_steps is not None
        if self.exchange != "updates" or not (ours or spends):
            return Split(1, DENSITY if self.density is None else self.density, "f32")
        return Split(*_core.split(self.budget or 0.0, self.density or 0.0, self.local_steps or 0))

    def values(self) -> str:
        """How values travel."""
        return self._collective()[1]

    def _collective(self) -> tuple[str, str]:
        return _core.collective_with(self.scheme, self.collective, self.split().values)

    def check(self) -> None:
        """Refuses values that the engine would not understand as they are meant."""
        self._check_spending()
        if self.steps_per_epoch < 0:
            raise _core.ConfigError(
                f"steps_per_epoch={self.steps_per_epoch} is no number of steps: it is 0, where it "
                "is not known, or more."
            )
        if self.exchange not in ("updates", "gradients"):
            raise _core.ConfigError(
                f'exchange={self.exchange!r} is neither "updates" nor "gradients".'
            )
        if self.select_on not in ("auto", "device", "host"):
            raise _core.ConfigError(
                f'select_on={self.select_on!r} is neither "auto" nor "device" nor "host".'
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

    def _check_spending(self) -> None:
        for name in ("budget", "local_steps"):
            if self.exchange == "gradients" and getattr(self, name) is not None:
                raise _core.ConfigError(
                    f"{name} is for an exchange of updates: leave it out, or take "
                    'topknot.DistributedOptimizer(exchange="updates").'
                )
        if self.exchange != "updates":
            return
        for name in ("budget", "density", "local_steps"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 2**63:
                raise _core.ConfigError(f"{name}={value} cannot be: it is a number above 0.")
        self.split()

    def engine(self) -> dict[str, Any]:
        """What the binding takes."""
        values = {name: getattr(self, name) for name in _ENGINE}
        values["rules"] = list(self.rules)
        values["whole"] = list(self.whole)
        values["density"] = self.split().density
        if self.split().values != "f32":
            values["collective"] = self._collective()[0]
        if self.exchange == "updates":
            values["memory"] = self.memory or "residual"
            values["clip"] = 0.0  # gradients are clipped before the optimizer's step
        return values

    def texts(self) -> dict[str, str]:
        """By name, for comparison between ranks."""
        return {
            key: " ".join(value) if isinstance(value, tuple) else _text(value)
            for key, value in dataclasses.asdict(self).items()
        }


def _text(value: Any) -> str:
    return "(not set)" if value is None else str(value)


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
    each.

        for name, meaning in topknot.options().items(): print(name, meaning)
    """
    return {name: field.metadata["meaning"] for name, _, field in _FIELDS}
