# SPDX-License-Identifier: Apache-2.0
"""The kernels of topknot.device_kernels in plain torch operations, for any device that torch has.

Each operation is rounded by itself: torch fuses no multiplication with an addition across two
calls."""

import torch

BINS = 2048


def _magnitude_bits(values: torch.Tensor) -> torch.Tensor:
    return values.view(torch.int32) & 0x7FFFFFFF


def _join(out, residual, move) -> torch.Tensor:
    torch.add(residual, move, out=out)
    return histogram(out, 0, 20)


def fold(out, residual, gradient, scale: float) -> torch.Tensor:
    return _join(out, residual, gradient.float() * scale)


def fold_momentum(out, residual, gradient, scale: float, memory) -> torch.Tensor:
    g = gradient.float() * scale
    if memory.nesterov and memory.dgc:
        torch.mul(memory.now + g, memory.momentum, out=memory.next)
        move = memory.next + g
    else:
        torch.add(memory.now * memory.momentum, g, out=memory.next)
        move = g + memory.next * memory.momentum if memory.nesterov else memory.next
    return _join(out, residual, move * memory.rate)


def _root(x: torch.Tensor) -> torch.Tensor:
    # On processors torch's root of f32 may be one ulp off; that of f64, rounded, is not.
    return x.double().sqrt().float() if x.is_cpu else x.sqrt()


def fold_adam(out, residual, gradient, scale: float, memory) -> torch.Tensor:
    beta1, rest1, beta2, rest2, epsilon, rate, root = memory.numbers()
    g = gradient.float() * scale
    torch.add(memory.now * beta1, g * rest1, out=memory.next)
    new = memory.square * beta2 + g * rest2 * g
    move = memory.next * rate / (_root(new) * root + epsilon)
    finite = new <= torch.finfo(torch.float32).max  # not so for NaN
    memory.square.copy_(torch.where(finite, new, memory.square))
    return _join(out, residual, torch.where(finite, move, torch.nan))


def histogram(values: torch.Tensor, low: int, shift: int) -> torch.Tensor:
    above = _magnitude_bits(values) - low
    bins = above >> shift
    if low > 0 or shift < 20:
        bins = bins[(above >= 0) & (bins < BINS)]
    return torch.bincount(bins, minlength=BINS).to(torch.int32)


def count(values: torch.Tensor, bits: int, block: int) -> torch.Tensor:
    found = _magnitude_bits(values)
    short = -values.numel() % block
    counts = [
        torch.nn.functional.pad(hits, (0, short)).view(-1, block).sum(1)
        for hits in (found > bits, found == bits)
    ]
    return torch.stack(counts).to(torch.int32)


def compact(values, bits: int, ties: int, counts, block: int, size: int, settle: bool):
    found = _magnitude_bits(values)
    larger = (found > bits).nonzero().view(-1)
    tied = (found == bits).nonzero().view(-1)[:ties]
    index = torch.cat([larger, tied]).sort().values
    value = values[index]
    if settle:
        values[index] = 0
    return index.to(torch.int32), value
