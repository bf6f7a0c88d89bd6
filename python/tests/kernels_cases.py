# SPDX-License-Identifier: Apache-2.0
"""topknot.device_kernels against the library's own memories and selection, bit for bit.

    kernels_cases.py torch|triton CASE...

Triton's kernels run here under its interpreter, TRITON_INTERPRET=1."""

import contextlib
import random
import sys
import time

import torch
import topknot_host
from cases import refuses

import topknot
from topknot import _kernels_torch
from topknot import device_kernels as kernels

BLOCK = kernels.BLOCK
SIZES = [1, 2, 3, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK - 1, 3 * BLOCK, 3 * BLOCK + 1]
TYPES = [torch.float32, torch.bfloat16]


def same(a: torch.Tensor, b: torch.Tensor, what: str) -> None:
    """But for the payload of NaN."""
    assert a.shape == b.shape, f"{what}: {a.shape} and {b.shape}"
    a, b = (torch.where(x.isnan(), torch.nan, x).view(torch.int32) for x in (a, b))
    wrong = (a != b).nonzero().view(-1)
    assert not wrong.numel(), f"{what} differs at {wrong[:9].tolist()} of {a.numel()}"


def normal(n: int) -> torch.Tensor:
    return torch.randn(n)


def ties(n: int) -> torch.Tensor:
    return torch.randint(-3, 4, (n,)).float()


def one_ulp_apart(n: int) -> torch.Tensor:
    bits = 0x3F800000 + torch.randint(-2, 3, (n,), dtype=torch.int32)
    return bits.view(torch.float32) * torch.where(torch.rand(n) < 0.5, 1.0, -1.0)


def denormals(n: int) -> torch.Tensor:
    return torch.randint(0, 1 << 12, (n,), dtype=torch.int32).view(torch.float32)


def zeros_of_both_signs(n: int) -> torch.Tensor:
    return torch.where(torch.rand(n) < 0.5, 0.0, -0.0)


def all_magnitudes(n: int) -> torch.Tensor:
    """Every exponent; two of the largest do not overflow."""
    bits = torch.randint(0, 0x7F000000, (n,), dtype=torch.int32)
    return bits.view(torch.float32) * torch.where(torch.rand(n) < 0.5, 1.0, -1.0)


CONTENTS = [normal, ties, one_ulp_apart, denormals, zeros_of_both_signs, all_magnitudes]


def compare(residual: torch.Tensor, gradient: torch.Tensor, k: int, what: str) -> None:
    host = topknot_host.Host("residual", residual.numel())
    host.set_residual(residual)
    finite, index, value = host.step(gradient.float(), k)
    out, before = torch.empty_like(residual), residual.clone()
    found = kernels.select_topk(residual, gradient, k, out=out, settled=True)
    same(residual, before, f"{what}: the residual before")
    assert found.finite == finite, what
    assert found.index.tolist() == index, what
    same(found.value, value, f"{what}: values")
    same(out if finite else residual, host.state()["residual"], f"{what}: residual")


def selects_what_the_host_selects():
    for n in SIZES:
        for content in CONTENTS:
            for kind in TYPES:
                for k in {0, 1, n // 100, n // 2, n - 1, n, n + 5}:
                    what = f"{content.__name__}, {kind}, k = {k} of {n}"
                    compare(content(n), content(n).to(kind), k, what)


def a_bin_that_holds_nearly_all_takes_more_passes():
    n = (1 << 16) + BLOCK + 3
    for content in (zeros_of_both_signs, one_ulp_apart, ties):
        for k in (1, 2, 1000, (n - 65536) // 2, n - 65537, n - 65536):
            compare(torch.zeros(n), content(n), k, f"{content.__name__}, k = {k} of {n}")
    spread = (0x3F800000 + torch.randint(0, 1 << 20, (n,), dtype=torch.int32)).view(torch.float32)
    for k in (1, 700, 3000):
        compare(torch.zeros(n), spread, k, f"one bin, k = {k} of {n}")


def a_sum_that_is_not_finite_changes_nothing():
    largest = torch.finfo(torch.float32).max
    for n in (1, BLOCK, 2 * BLOCK + 1):
        for place in {0, n // 2, n - 1}:
            for mine, theirs in (
                (1.0, torch.inf),
                (1.0, -torch.inf),
                (0.0, torch.nan),
                (largest, largest),
                (torch.inf, -torch.inf),
            ):
                for kind in TYPES:
                    residual, gradient = normal(n), normal(n)
                    residual[place], gradient[place] = mine, theirs
                    compare(residual, gradient.to(kind), 3, f"{theirs} at {place} of {n}")
    compare(torch.full((9,), largest), torch.full((9,), -largest), 3, "the largest")


def without_another_vector_the_residual_is_replaced():
    for place, finite in ((0, True), (7, False)):
        residual, gradient = normal(BLOCK + 1), normal(BLOCK + 1)
        gradient[place] = 1.0 if finite else torch.nan
        out, before = torch.empty_like(residual), residual.clone()
        kernels.select_topk(residual, gradient, 50, out=out, settled=True)
        assert kernels.select_topk(residual, gradient, 50, settled=True).finite == finite
        same(residual, out if finite else before, "in place")


def gradients_of_steps(n: int):
    """One that is not finite, and one whose square is not, are among them."""
    for step in range(8):
        gradient = normal(n) * 10.0 ** random.randint(-3, 1)
        gradient[step::7] = 0
        if step == 3:
            gradient[n // 3] = torch.nan
        if step == 5:
            gradient[n // 2] = 1e30
        yield gradient


def memories_fold_as_the_host_does():
    for spec, options in (
        ("momentum:momentum=0.9", {}),
        ("momentum:momentum=0.7,nesterov=1", {"momentum": 0.7, "nesterov": True}),
        ("dgc:momentum=0.9", {"dgc": True}),
        ("dgc:momentum=0.8,nesterov=1", {"momentum": 0.8, "dgc": True, "nesterov": True}),
    ):
        rate = 1.0 if "dgc" in options else 0.03
        for n in (1, BLOCK - 1, BLOCK + 1):
            memory = kernels.Momentum(torch.zeros(n), torch.zeros(n), rate=rate, **options)
            follow(spec, memory, n, rate, 1)


def adam_folds_as_the_host_does():
    for n in (1, BLOCK - 1, BLOCK + 1):
        memory = kernels.Adam(torch.zeros(n), torch.zeros(n), torch.zeros(n))
        follow("adam", memory, n, 0.003, 4)


def follow(spec: str, memory, n: int, rate: float, ranks: int) -> None:
    host = topknot_host.Host(spec, n)
    residual, spare, steps, k = torch.zeros(n), torch.empty(n), 0, n // 50
    for kind in TYPES:
        for gradient in gradients_of_steps(n):
            gradient = gradient.to(kind)
            if isinstance(memory, kernels.Adam):
                memory.rate = ranks**0.5 * rate / (1 - memory.beta1 ** (steps + 1))
                memory.root = (1 - memory.beta2 ** (steps + 1)) ** -0.5
            finite, index, value = host.step(gradient.float(), k, rate, ranks)
            found = kernels.select_topk(
                residual, gradient, k, out=spare, memory=memory, settled=True
            )
            assert (found.finite, found.index.tolist()) == (finite, index), spec
            same(found.value, value, f"{spec}: values")
            if finite:
                residual, spare = spare, residual
                memory.now, memory.next = memory.next, memory.now
                kernels.settle(memory.now, found.index)
                steps += 1
            state = host.state()
            same(residual, state["residual"], f"{spec}: residual")
            same(memory.now, state["mean" if "mean" in state else "velocity"], f"{spec}: now")
            if "square" in state:
                same(memory.square, state["square"], f"{spec}: square")
    assert 0 < steps < 16, f"{spec}: {steps} steps were finite"


@contextlib.contextmanager
def instead(owner, name: str, function):
    before = getattr(owner, name)
    setattr(owner, name, function(before))
    try:
        yield
    finally:
        setattr(owner, name, before)


def the_order_of_programs_does_not_matter():
    from triton.runtime.interpreter import interpreter_builder as builder

    def backwards(count: int) -> list[int]:
        return list(range(count))[::-1]

    def shuffled(count: int) -> list[int]:
        return random.Random(count).sample(range(count), count)

    for order in (backwards, shuffled):
        def permuted(before, order=order):  # fmt: skip
            return lambda x, y, z: before(order(builder.grid_dim[0])[x], y, z)

        with instead(builder, "set_grid_idx", permuted):
            for content, n, k in (
                (normal, 9 * BLOCK + 5, 700),
                (ties, 9 * BLOCK + 5, 700),
                (one_ulp_apart, (1 << 16) + 1, 1),
            ):
                compare(torch.zeros(n), content(n), k, f"{content.__name__}, {order.__name__}")


def three_launches_move_twenty_bytes_a_coordinate():
    """Bytes of loads, stores and atomics that are not masked."""
    from triton.runtime import interpreter

    n, k = 32 * BLOCK, 32 * BLOCK // 100
    launches, moved = [], []
    builder = interpreter.interpreter_builder

    def counted(times: int, mask_at: int):
        def wrap(before):
            def call(pointer, *rest):
                width = pointer.get_element_ty().primitive_bitwidth // 8
                moved.append(times * width * int(rest[mask_at].data.sum()))
                return before(pointer, *rest)

            return call

        return wrap

    def launched(before):
        return lambda self, *args, **kwargs: (launches.append(self.fn), before(self, *args, **kwargs))

    with (
        instead(interpreter.GridExecutor, "__call__", launched),
        instead(builder, "create_masked_load", counted(1, 0)),
        instead(builder, "create_masked_store", counted(1, 1)),
        instead(builder, "create_atomic_rmw", lambda before: counted_atomic(before, moved)),
    ):
        for kind, bytes_of_passes in ((torch.float32, 20), (torch.bfloat16, 18)):
            launches.clear()
            moved.clear()
            found = kernels.select_topk(
                normal(n), normal(n).to(kind), k, out=torch.empty(n), settled=True
            )
            assert found.index.numel() == k
            assert len(launches) == 3, launches
            assert bytes_of_passes < sum(moved) / n < bytes_of_passes + 1, sum(moved) / n


def counted_atomic(before, moved: list):
    def call(op, pointer, value, mask, *rest):
        assert value.data.dtype.kind in "iu", "an atomic that is not of integers"
        moved.append(8 * int(mask.data.sum()))
        return before(op, pointer, value, mask, *rest)

    return call


def refuses_what_it_cannot_take():
    def asking(words: str, residual, gradient, **options):
        refuses(
            topknot.ConfigError, words, lambda: kernels.select_topk(residual, gradient, 1, **options)
        )

    f32 = torch.zeros(8)
    asking("gradient is torch.float64", f32, f32.double())
    asking("gradient is torch.float32 [7]", f32, torch.zeros(7))
    asking("residual is torch.bfloat16", f32.bfloat16(), f32)
    asking("residual is torch.float32 [2, 4]", f32.view(2, 4), f32.view(2, 4))
    asking("gradient is torch.float32 [8]", f32, torch.zeros(16)[::2])
    asking("out is torch.bfloat16", f32, f32, out=f32.bfloat16())
    asking("next is torch.float32 [3]", f32, f32, memory=kernels.Momentum(f32, torch.zeros(3)))
    asking("at most 2147483647", torch.zeros(1).expand(1 << 31), f32)
    empty = torch.zeros(0)
    found = kernels.select_topk(empty, empty, 3)
    assert found.finite and found.index.numel() == 0


if __name__ == "__main__":
    if sys.argv[1] == "triton":
        from topknot import _kernels_triton

        kernels.implementation = lambda device: _kernels_triton
    else:
        assert kernels.implementation(torch.device("cpu")) is _kernels_torch
    for name in sys.argv[2:]:
        torch.manual_seed(1)
        random.seed(1)
        start = time.monotonic()
        globals()[name]()
        print(f"{name}: {time.monotonic() - start:.1f} s", flush=True)
