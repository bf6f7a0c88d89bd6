# SPDX-License-Identifier: Apache-2.0
"""The package beside the C++ engine, which the release build of the tree has a program for."""

import pathlib
import subprocess

import pytest

PROGRAMS = pathlib.Path(__file__).resolve().parents[2] / "build/release/tests"


def program(name: str) -> pathlib.Path:
    if not (PROGRAMS / name).exists():
        pytest.skip(f"build/release/tests/{name} is not built: ./run build")
    return PROGRAMS / name


@pytest.mark.parametrize("count", [1, 3])
def test_every_scheme_gives_the_bits_of_the_engine(ranks, python, tmp_path, monkeypatch, count):
    engine_means = program("engine_means")
    names = "import topknot; print(*topknot.schemes())"
    schemes = subprocess.run([python, "-c", names], capture_output=True, text=True, check=True)
    for scheme in schemes.stdout.split():
        subprocess.run([engine_means, scheme, str(count), "5", tmp_path / scheme], check=True)
    monkeypatch.setenv("ENGINE_MEANS", str(tmp_path))
    ranks(count, "engine_cases.py", "every_scheme_gives_the_bits_of_the_engine")


@pytest.mark.parametrize("count", [1, 3])
def test_local_steps_have_the_bits_of_the_trainer(ranks, tmp_path, monkeypatch, count):
    weights = program("local_steps_weights")
    for kind in ("diloco", "sparseloco", "nesterov"):
        subprocess.run([weights, kind, str(count), "4", tmp_path / kind], check=True)
    monkeypatch.setenv("LOCAL_STEPS", str(tmp_path))
    ranks(count, "local_steps_cases.py", "local_steps_have_the_bits_of_the_trainer")
