# SPDX-License-Identifier: Apache-2.0
"""Selection on the device that the gradient is on, in three passes over the vector.

    fold      sum = residual + gradient, and a histogram of the sum's magnitudes
    count     by block, how many magnitudes reach a threshold
    compact   these coordinates, in order of index

select_topk() puts them together. It has the bits of the C++ library's exact selection: the same
sums, the same coordinates, ties to the lower index. Of bytes that the three passes move there are
20 a coordinate for an f32 gradient, 18 for bf16, and momentum's or Adam's moments in the fold.

Vectors are contiguous, of one dimension, on one device; the residual is f32, the gradient f32, bf16
or f16. On CUDA and ROCm the passes are Triton kernels, where triton is installed; elsewhere, plain
torch operations with the same bits.
"""

import ctypes
import dataclasses
import functools
import importlib.util
from collections.abc import Generator
from types import ModuleType

import torch

from topknot import _core, _kernels_torch

BLOCK = 4096  # coordinates of which count() makes a number
_BIN_SHIFT = 20  # of bin_of() in src/core/histogram.cc
_INFINITY_BITS = 0x7F800000
_ALL = 2**31 - 1


def _f32(x: float) -> float:
    return ctypes.c_float(x).value


@dataclasses.dataclass
class Momentum:
    """A step of momentum before the residual, as the memory `momentum`; `dgc=True`: as `dgc`.

    The velocity goes from `now` to `next`, so that a step that is refused has not moved it: swap
    them when the step is applied."""

    now: torch.Tensor
    next: torch.Tensor
    momentum: float = 0.9
    rate: float = 1.0
    nesterov: bool = False
    dgc: bool = False

    def __post_init__(self) -> None:
        self.momentum, self.rate = _f32(self.momentum), _f32(self.rate)

    def vectors(self) -> dict[str, torch.Tensor]:
        return {"now": self.now, "next": self.next}


@dataclasses.dataclass
class Adam:
    """A step of Adam before the residual, as the memory `adam`.

    The mean goes from `now` to `next`; `square` is changed in place, where it stays finite. `rate`
    and `root` have the corrections of the bias inside, as AdamStep in src/core/adam.h."""

    now: torch.Tensor
    next: torch.Tensor
    square: torch.Tensor
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    rate: float = 1.0
    root: float = 1.0

    def vectors(self) -> dict[str, torch.Tensor]:
        return {"now": self.now, "next": self.next, "square": self.square}

    def numbers(self) -> tuple[float, ...]:
        """Beta and 1 - beta of the mean, the same of the squares, epsilon, rate, root: in f32."""
        beta1, beta2 = _f32(self.beta1), _f32(self.beta2)
        rest1, rest2 = _f32(1 - beta1), _f32(1 - beta2)
        return beta1, rest1, beta2, rest2, _f32(self.epsilon), _f32(self.rate), _f32(self.root)


@dataclasses.dataclass
class Selected:
    """What select_topk() found: nothing, where a sum is not finite."""

    finite: bool
    index: torch.Tensor  # int32, in order
    value: torch.Tensor  # f32


Steps = Generator[torch.Tensor, list[int], Selected]


@functools.cache
def _triton() -> ModuleType | None:
    if importlib.util.find_spec("triton") is None:
        return None
    from topknot import _kernels_triton

    return _kernels_triton


def implementation(device: torch.device) -> ModuleType:
    """The kernels for `device`: those of Triton, or plain torch operations."""
    return (device.type == "cuda" and _triton()) or _kernels_torch


def fold(
    residual: torch.Tensor,
    gradient: torch.Tensor,
    *,
    out: torch.Tensor | None = None,
    scale: float = 1.0,
    memory: Momentum | Adam | None = None,
) -> torch.Tensor:
    """Puts residual + scale * gradient into `out`, by default the residual itself, and returns how
    many of the sums have each magnitude_bits() >> 20: int32, 2048 bins, those from 0x7F8 on for
    infinity and NaN.

        histogram = fold(residual, gradient)

    `memory` makes of the scaled gradient what joins the residual instead. `out` may be the
    gradient, where that is f32.
    """
    out = residual if out is None else out
    vectors = {} if memory is None else memory.vectors()
    _check(residual, gradient, {"out": out, **vectors})
    kernels = implementation(residual.device)
    scale = _f32(scale)
    if isinstance(memory, Momentum):
        return kernels.fold_momentum(out, residual, gradient, scale, memory)
    if isinstance(memory, Adam):
        return kernels.fold_adam(out, residual, gradient, scale, memory)
    return kernels.fold(out, residual, gradient, scale)


def count(values: torch.Tensor, bits: int, block: int = BLOCK) -> torch.Tensor:
    """By block of so many coordinates, a power of two: in row 0 how many magnitude_bits() are above
    `bits`, in row 1 how many equal it. int32.

        counts = count(residual, bits)
    """
    return implementation(values.device).count(values, bits, block)


def compact(
    values: torch.Tensor,
    bits: int,
    counts: torch.Tensor,
    *,
    ties: int = _ALL,
    size: int | None = None,
    settle: bool = False,
    block: int = BLOCK,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The coordinates whose magnitude_bits() are above `bits`, and the first `ties` of those that
    equal it, in order of index: int32 positions and their values. `settle` sets them to zero.

        index, value = compact(residual, bits, count(residual, bits))

    `counts` is what count() gave for `bits` and `block`. `size` is how many there are, where that
    is known: without it the host waits for the device to say so.
    """
    if size is None:
        larger, equal = counts.sum(1).tolist()
        size = larger + min(equal, ties)
    kernels = implementation(values.device)
    return kernels.compact(values, bits, ties, counts, block, size, settle)


def settle(values: torch.Tensor, index: torch.Tensor) -> None:
    """Sets `values` to zero at these positions: the residual, or a moment that is masked.

        settle(residual, index)
    """
    values.index_fill_(0, index.long(), 0)


def select_topk(
    residual: torch.Tensor,
    gradient: torch.Tensor,
    k: int,
    *,
    out: torch.Tensor | None = None,
    scale: float = 1.0,
    memory: Momentum | Adam | None = None,
    settled: bool = False,
) -> Selected:
    """Folds, and finds the k largest magnitudes of the sum, ties to the lower index.

        found = select_topk(residual, gradient, k, out=spare)
        if found.finite:
            residual, spare = spare, residual

    The sum goes to `out`, and the residual stays as it is: so a sum that is not finite leaves it
    alone. Without `out` a vector is made for it and copied into the residual, where it is finite,
    which moves 8 more bytes a coordinate. `settled` sets what was found to zero in the sum.

    The host waits for the device once, to know how much room the coordinates need; and once more
    for every pass that is needed beyond the three, where most of the vector is in one bin of the
    histogram, as zeros are.
    """
    total = torch.empty_like(residual) if out is None else out
    found = read_at_once(
        topk_steps(residual, gradient, k, out=total, scale=scale, memory=memory, settled=settled)
    )
    if out is None and found.finite:
        residual.copy_(total)
    return found


def read_at_once(steps: Steps) -> Selected:
    """Goes through `steps`, and waits for the device wherever a number is needed."""
    try:
        asked = next(steps)
        while True:
            asked = steps.send(asked.tolist())
    except StopIteration as done:
        return done.value


def topk_steps(
    residual: torch.Tensor,
    gradient: torch.Tensor,
    k: int,
    *,
    out: torch.Tensor,
    scale: float = 1.0,
    memory: Momentum | Adam | None = None,
    settled: bool = False,
) -> Steps:
    """select_topk() that waits for nothing: it yields every tensor of integers that the host has to
    read before the next launch, and is sent what the host has read."""
    k = min(k, residual.numel())
    histogram = fold(residual, gradient, out=out, scale=scale, memory=memory)
    nonfinite, low, found, above = yield _ask_bin(histogram, k)
    if nonfinite:
        none = residual.new_empty(0)
        return Selected(False, none.to(torch.int32), none)
    return Selected(True, *(yield from _largest(out, k, low, found, above, settled)))


def fold_steps(
    residual: torch.Tensor,
    gradient: torch.Tensor,
    *,
    out: torch.Tensor,
    memory: Momentum | Adam | None = None,
) -> Steps:
    """The fold alone, as topk_steps()."""
    return topk_steps(residual, gradient, 0, out=out, memory=memory)


def _ask_bin(histogram: torch.Tensor, k: int) -> torch.Tensor:
    """How many are not finite; the bin of the k-th largest; how many are in it or above, and how
    many above."""
    from_the_top = histogram.flip(0).cumsum(0)
    place = (from_the_top < k).sum().clamp(max=histogram.numel() - 1)
    reached = from_the_top.gather(0, place.view(1)).view(())
    nonfinite = histogram[_INFINITY_BITS >> _BIN_SHIFT :].sum()
    above = reached - histogram.flip(0).gather(0, place.view(1)).view(())
    return torch.stack([nonfinite, histogram.numel() - 1 - place, reached, above])


def _largest(total, k: int, low: int, found: int, above: int, settled: bool):
    if k == 0:
        return total.new_empty(0, dtype=torch.int32), total.new_empty(0)
    if found > max(4 * k, k + 65536):
        bits, ties = yield from _exact_cut(total, low, k - above)
        return compact(total, bits, count(total, bits), ties=ties, size=k, settle=settled)
    bits = low << _BIN_SHIFT
    index, value = compact(total, bits, count(total, bits), size=found)
    if found > k:
        index, value = _keep_largest(index, value, k)
    if settled:
        settle(total, index)
    return index, value


def _keep_largest(index, value, k: int):
    """Of a few candidates."""
    bits = value.view(torch.int32) & 0x7FFFFFFF
    smallest = bits.topk(k, sorted=False).values.min()
    larger, tied = bits > smallest, bits == smallest
    kept = larger | (tied & (tied.cumsum(0) <= k - larger.sum()))
    # There are k, so nobody has to wait for a count; what is not kept goes to a place behind them.
    place = torch.where(kept, kept.cumsum(0) - 1, k)
    return (
        index.new_empty(k + 1).scatter_(0, place, index)[:k],
        value.new_empty(k + 1).scatter_(0, place, value)[:k],
    )


def _exact_cut(total: torch.Tensor, low: int, rank: int):
    """The rank-th largest magnitude_bits() of bin `low`, and how many of those that equal it are
    wanted: 20 more bits, in two passes."""
    kernels = implementation(total.device)
    bits = low << _BIN_SHIFT
    for shift, width in ((9, 11), (0, 9)):
        inside = kernels.histogram(total, bits, shift)[: 1 << width]
        _, place, _, above = yield _ask_bin(inside, rank)
        bits += place << shift
        rank -= above
    return bits, rank


def _check(residual, gradient, others: dict[str, torch.Tensor]) -> None:
    kinds = (torch.float32, torch.bfloat16, torch.float16)
    if gradient.dtype not in kinds:
        raise _core.ConfigError(f"The gradient is {gradient.dtype}: f32, bf16 and f16 are folded.")
    if residual.numel() > _ALL:
        raise _core.ConfigError(
            f"The residual has {residual.numel()} coordinates, and at most {_ALL} are selected from "
            "at once: cut it into buckets."
        )
    for name, one in {"residual": residual, "gradient": gradient, **others}.items():
        alike = one.shape == residual.shape and one.device == residual.device
        f32 = one is gradient or one.dtype == torch.float32
        if not (alike and f32 and one.dim() == 1 and one.is_contiguous()):
            raise _core.ConfigError(
                f"{name} is {one.dtype} {list(one.shape)} on {one.device}: it must be a contiguous "
                f"vector{'' if one is gradient else ' of f32'}, as long as the residual and on its "
                "device."
            )
