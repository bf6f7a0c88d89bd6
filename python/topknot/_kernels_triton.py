# SPDX-License-Identifier: Apache-2.0
"""The kernels of topknot.device_kernels in Triton, for CUDA and ROCm.

The interpreter runs the programs of a launch one after another, a device runs them at once. Its
bits are a device's, since programs here cannot see each other: they store to places of their own,
which prefix sums have assigned, and what they share are integer counters, whose sums do not depend
on the order. Every floating-point operation is rounded by itself, as on the host: launches forbid
fused multiply-add, and divide and take roots by IEEE's rule.
"""

import torch
import triton
import triton.language as tl

BINS = tl.constexpr(2048)
NUMBER_BITS = tl.constexpr(0x7FFFFFFF)  # all but the sign
LARGEST = tl.constexpr(3.4028234663852886e38)
FOLD_BLOCK = 4096  # coordinates of a program
_FIXED = {"num_warps": 8, "enable_fp_fusion": False}


@triton.jit
def _places(n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    return at, at < n


@triton.jit
def _magnitude_bits(x):
    return x.to(tl.int32, bitcast=True) & NUMBER_BITS


@triton.jit
def _load_f32(vector, at, inside):
    x = tl.load(vector + at, inside, 0.0)
    if x.dtype == tl.bfloat16:
        # A bf16 is the upper half of an f32; the interpreter's own cast loses denormals.
        x = (x.to(tl.int16, bitcast=True).to(tl.int32) << 16).to(tl.float32, bitcast=True)
    return x.to(tl.float32)


@triton.jit
def _tally(bins, histogram, inside):
    """Counts in the program first: most bins of a block are empty, and need no atomic."""
    counts = tl.histogram(bins, BINS, inside)
    at = tl.arange(0, BINS)
    tl.atomic_add(histogram + at, counts, counts > 0, sem="relaxed")


@triton.jit
def _join(out, residual, move, histogram, at, inside):
    total = tl.load(residual + at, inside, 0.0) + move
    tl.store(out + at, total, inside)
    _tally(_magnitude_bits(total) >> 20, histogram, inside)


@triton.jit(do_not_specialize=["n"])
def fold_kernel(out, residual, gradient, histogram, n, scale, BLOCK: tl.constexpr):
    at, inside = _places(n, BLOCK)
    move = scale * _load_f32(gradient, at, inside)
    _join(out, residual, move, histogram, at, inside)


@triton.jit(do_not_specialize=["n"])
def fold_momentum_kernel(
    out, residual, gradient, histogram, n, scale, now, next, momentum, rate,
    NESTEROV: tl.constexpr, DGC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at, inside = _places(n, BLOCK)
    g = scale * _load_f32(gradient, at, inside)
    old = tl.load(now + at, inside, 0.0)
    if NESTEROV and DGC:
        velocity = momentum * (old + g)
        move = velocity + g
    else:
        velocity = momentum * old + g
        move = velocity
        if NESTEROV:
            move = g + momentum * velocity
    tl.store(next + at, velocity, inside)
    _join(out, residual, rate * move, histogram, at, inside)


@triton.jit(do_not_specialize=["n"])
def fold_adam_kernel(
    out, residual, gradient, histogram, n, scale, now, next, square, beta1, rest1, beta2, rest2,
    epsilon, rate, root, BLOCK: tl.constexpr,
):  # fmt: skip
    at, inside = _places(n, BLOCK)
    g = scale * _load_f32(gradient, at, inside)
    mean = beta1 * tl.load(now + at, inside, 0.0) + rest1 * g
    old = tl.load(square + at, inside, 0.0)
    new = beta2 * old + (rest2 * g) * g
    finite = new <= LARGEST  # not so for NaN
    move = tl.div_rn(rate * mean, tl.sqrt_rn(new) * root + epsilon)
    tl.store(next + at, mean, inside)
    tl.store(square + at, tl.where(finite, new, old), inside)
    move = tl.where(finite, move, float("nan"))
    _join(out, residual, move, histogram, at, inside)


@triton.jit(do_not_specialize=["n", "low", "shift"])
def histogram_kernel(values, histogram, n, low, shift, BLOCK: tl.constexpr):
    at, inside = _places(n, BLOCK)
    above = _magnitude_bits(tl.load(values + at, inside, 0.0)) - low
    bins = above >> shift
    _tally(bins, histogram, inside & (above >= 0) & (bins < BINS))


@triton.jit(do_not_specialize=["n", "bits"])
def count_kernel(values, counts, blocks, n, bits, BLOCK: tl.constexpr):
    at, inside = _places(n, BLOCK)
    found = _magnitude_bits(tl.load(values + at, inside, 0.0))
    block = tl.program_id(0)
    tl.store(counts + block, tl.sum(((found > bits) & inside).to(tl.int32), 0))
    tl.store(counts + blocks + block, tl.sum(((found == bits) & inside).to(tl.int32), 0))


@triton.jit(do_not_specialize=["n", "bits", "ties", "blocks"])
def compact_kernel(
    values, starts, blocks, index, value, n, bits, ties, SETTLE: tl.constexpr, BLOCK: tl.constexpr
):
    at, inside = _places(n, BLOCK)
    x = tl.load(values + at, inside, 0.0)
    found = _magnitude_bits(x)
    block = tl.program_id(0)
    larger_before = tl.load(starts + block)
    tied_before = tl.load(starts + blocks + block)
    tied = (found == bits) & inside
    first = tied_before + tl.cumsum(tied.to(tl.int32), 0) <= ties
    taken = ((found > bits) & inside) | (tied & first)
    place = larger_before + tl.minimum(tied_before, ties) + tl.cumsum(taken.to(tl.int32), 0) - 1
    tl.store(index + place, at.to(tl.int32), taken)
    tl.store(value + place, x, taken)
    if SETTLE:
        tl.store(values + at, tl.zeros_like(x), taken)


def _grid(n: int, block: int) -> tuple[int]:
    return ((n + block - 1) // block,)


def _launch_fold(kernel, out, residual, gradient, *numbers, **constants) -> torch.Tensor:
    histogram = torch.zeros(BINS.value, dtype=torch.int32, device=out.device)
    n = out.numel()
    kernel[_grid(n, FOLD_BLOCK)](
        out, residual, gradient, histogram, n, *numbers, **constants, BLOCK=FOLD_BLOCK, **_FIXED
    )
    return histogram


def fold(out, residual, gradient, scale: float) -> torch.Tensor:
    return _launch_fold(fold_kernel, out, residual, gradient, scale)


def fold_momentum(out, residual, gradient, scale: float, memory) -> torch.Tensor:
    return _launch_fold(
        fold_momentum_kernel, out, residual, gradient, scale, memory.now, memory.next,
        memory.momentum, memory.rate, NESTEROV=memory.nesterov, DGC=memory.dgc,
    )  # fmt: skip


def fold_adam(out, residual, gradient, scale: float, memory) -> torch.Tensor:
    return _launch_fold(
        fold_adam_kernel, out, residual, gradient, scale, memory.now, memory.next, memory.square,
        *memory.numbers(),
    )  # fmt: skip


def histogram(values: torch.Tensor, low: int, shift: int) -> torch.Tensor:
    found = torch.zeros(BINS.value, dtype=torch.int32, device=values.device)
    n = values.numel()
    histogram_kernel[_grid(n, FOLD_BLOCK)](
        values, found, n, low, shift, BLOCK=FOLD_BLOCK, **_FIXED
    )
    return found


def count(values: torch.Tensor, bits: int, block: int) -> torch.Tensor:
    grid = _grid(values.numel(), block)
    counts = torch.empty(2, *grid, dtype=torch.int32, device=values.device)
    count_kernel[grid](values, counts, *grid, values.numel(), bits, BLOCK=block, **_FIXED)
    return counts


def compact(values, bits: int, ties: int, counts, block: int, size: int, settle: bool):
    grid = _grid(values.numel(), block)
    starts = (counts.cumsum(1) - counts).to(torch.int32)
    index = torch.empty(size, dtype=torch.int32, device=values.device)
    value = torch.empty(size, dtype=torch.float32, device=values.device)
    compact_kernel[grid](
        values, starts, *grid, index, value, values.numel(), bits, ties,
        SETTLE=settle, BLOCK=block, **_FIXED,
    )  # fmt: skip
    return index, value
