# SPDX-License-Identifier: Apache-2.0
"""Builds the package as a user would, by pip, into build/python, and runs functions on
several ranks by torchrun.

A test of many ranks is a function that is run on all of them, in a file of its own kind:

    def test_something(ranks):
        ranks(4, "ddp_cases.py", "density_one_is_plain_ddp")

which torchrun calls by name; it fails by an exception on any rank.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "python"
SITE = BUILD / "site"


@pytest.fixture(scope="session")
def package() -> pathlib.Path:
    """Where the package is installed; the compiled part is kept between runs."""
    command = [
        sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation",
        "--no-deps", "--no-index", "--disable-pip-version-check", "--upgrade",
        f"--target={SITE}", f"--config-settings=build-dir={BUILD / 'cmake'}",
        str(ROOT / "python"),
    ]  # fmt: skip
    if SITE.exists():
        shutil.rmtree(SITE)
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return SITE


def environment(site: pathlib.Path) -> dict[str, str]:
    env = dict(os.environ)
    env.update(PYTHONPATH=f"{site}", OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
    env.update(PYTHONDONTWRITEBYTECODE="1", TORCH_CPP_LOG_LEVEL="ERROR")
    return env


@pytest.fixture
def ranks(package):
    """Runs case NAME of tests/FILE on so many ranks. Returns what they printed."""

    def run(count: int, file: str, *names: str, timeout: float = 100) -> str:
        script = pathlib.Path(__file__).parent / file
        command = [
            sys.executable, "-m", "torch.distributed.run", "--standalone",
            f"--nproc-per-node={count}", "--max-restarts=0", str(script), *names,
        ]  # fmt: skip
        done = subprocess.run(
            command, env=environment(package), capture_output=True, text=True, timeout=timeout
        )
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-8000:]
        return done.stdout

    return run
