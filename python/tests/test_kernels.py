# SPDX-License-Identifier: Apache-2.0
"""The kernels that select on a device: on the processor, under Triton's interpreter, and compiled
for devices that are not here."""

import importlib.util
import pathlib
import subprocess

import conftest
import pytest

HERE = pathlib.Path(__file__).parent
CASES = [
    "selects_what_the_host_selects",
    "a_bin_that_holds_nearly_all_takes_more_passes",
    "a_sum_that_is_not_finite_changes_nothing",
    "without_another_vector_the_residual_is_replaced",
    "memories_fold_as_the_host_does",
    "adam_folds_as_the_host_does",
    "refuses_what_it_cannot_take",
]


def run_cases(python, *arguments: str, **variables: str) -> None:
    done = subprocess.run(
        [python, *arguments], capture_output=True, text=True, timeout=600,
        env=conftest.environment() | variables,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-8000:]


def need_triton() -> None:
    if importlib.util.find_spec("triton") is None:
        pytest.skip("triton is not installed: scripts/setup installs it where pip can get it")


def test_torch_operations_have_the_bits_of_the_host(python):
    run_cases(python, HERE / "kernels_cases.py", "torch", *CASES)


def test_triton_kernels_have_the_bits_of_the_host(python):
    need_triton()
    run_cases(
        python, HERE / "kernels_cases.py", "triton", *CASES,
        "the_order_of_programs_does_not_matter",
        "three_launches_move_twenty_bytes_a_coordinate",
        TRITON_INTERPRET="1",
    )  # fmt: skip


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_120", "gfx942"])
def test_triton_kernels_compile_for_a_device(python, tmp_path, target):
    need_triton()
    run_cases(python, HERE / "kernels_compile.py", target, TRITON_CACHE_DIR=str(tmp_path))
