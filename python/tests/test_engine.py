# SPDX-License-Identifier: Apache-2.0
"""The package beside the C++ engine, which the release build of the tree has a program for."""

import pathlib
import subprocess

import pytest

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "build/release/tests/engine_means"


@pytest.mark.parametrize("count", [1, 3])
def test_every_scheme_gives_the_bits_of_the_engine(ranks, python, tmp_path, monkeypatch, count):
    if not PROGRAM.exists():
        pytest.skip("build/release/tests/engine_means is not built: ./run build")
    names = "import topknot; print(*topknot.schemes())"
    schemes = subprocess.run([python, "-c", names], capture_output=True, text=True, check=True)
    for scheme in schemes.stdout.split():
        subprocess.run([PROGRAM, scheme, str(count), "5", tmp_path / scheme], check=True)
    monkeypatch.setenv("ENGINE_MEANS", str(tmp_path))
    ranks(count, "engine_cases.py", "every_scheme_gives_the_bits_of_the_engine")
