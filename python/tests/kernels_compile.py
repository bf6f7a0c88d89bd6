# SPDX-License-Identifier: Apache-2.0
"""Compiles the Triton kernels for a device that need not be here, and reads the instructions.

    kernels_compile.py sm_80|sm_90|sm_120|gfx942"""

import re
import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from topknot import _kernels_triton as kernels

INTEGERS = {"n": "i32", "bits": "i32", "ties": "i32", "blocks": "i32", "low": "i32",
            "shift": "i32", "histogram": "*i32", "counts": "*i32", "starts": "*i32",
            "index": "*i32"}  # fmt: skip
VECTORS = {"out", "residual", "now", "next", "square", "values", "value"}


def types(kernel, gradient: str) -> dict[str, str]:
    def kind(name: str) -> str:
        if name.isupper():
            return "constexpr"
        if name == "gradient":
            return f"*{gradient}"
        return INTEGERS.get(name) or ("*fp32" if name in VECTORS else "fp32")

    return {name: kind(name) for name in kernel.arg_names}


def variants():
    """Kernels with their constants."""
    yield kernels.fold_kernel, {}
    for nesterov in (False, True):
        for dgc in (False, True):
            yield kernels.fold_momentum_kernel, {"NESTEROV": nesterov, "DGC": dgc}
    yield kernels.fold_adam_kernel, {}
    yield kernels.histogram_kernel, {}
    yield kernels.count_kernel, {}
    for settle in (False, True):
        yield kernels.compact_kernel, {"SETTLE": settle}


def check_cuda(name: str, text: str) -> None:
    assert not re.search(r"\bfma\.|\bmad\.\w*\.?f32", text), f"{name} fuses operations"
    assert ".ftz" not in text, f"{name} loses denormals"
    assert not re.search(r"\b(div|sqrt)\.(?!rn\.)", text), f"{name} divides inexactly"
    for atomic in re.findall(r"\b(?:atom|red)\.\S+", text):
        assert re.search(r"\.add\.[us]32$", atomic), f"{name} has {atomic}"


def check_rocm(name: str, text: str) -> None:
    # Division and root are made of fused steps, and rounded as IEEE wants them.
    if name != "fold_adam_kernel":
        assert not re.search(r"\bv_(pk_)?(fma|fmac|mad|mac)_f32", text), f"{name} fuses operations"
    denormals = re.search(r"\.amdhsa_float_denorm_mode_32 (\d)", text)
    assert denormals and denormals[1] == "3", f"{name} loses denormals"
    for atomic in re.findall(r"\b(?:global|flat|buffer)_atomic_\S+|\bds_\w*add\w*", text):
        assert re.search(r"(atomic_add|ds_add(_rtn)?_u32)$", atomic), f"{name} has {atomic}"


def main(arch: str) -> None:
    if arch.startswith("sm_"):
        target, text, binary, check = GPUTarget("cuda", int(arch[3:]), 32), "ptx", "cubin", check_cuda
    else:
        target, text, binary, check = GPUTarget("hip", arch, 64), "amdgcn", "hsaco", check_rocm
    for kernel, constants in variants():
        for gradient in ("fp32", "bf16") if "gradient" in kernel.arg_names else ("fp32",):
            source = ASTSource(kernel, types(kernel, gradient), {"BLOCK": 4096, **constants})
            made = triton.compile(source, target=target, options=kernels._FIXED)
            assert len(made.asm[binary]) > 1000
            check(kernel.__name__, made.asm[text])
            if "histogram" in kernel.arg_names:
                assert re.search(r"\bred\.global|(global|buffer)_atomic", made.asm[text]), kernel.__name__


if __name__ == "__main__":
    main(sys.argv[1])
