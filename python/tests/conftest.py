# SPDX-License-Identifier: Apache-2.0
"""Builds the package the way a release goes, and runs functions on several ranks.

    sdist  ->  build/python/source  ->  wheel  ->  build/python/venv

The venv is empty but for the wheel, and sees torch where the tests' interpreter has it. All
tests run there. The sources that were unpacked, and what was compiled, are kept from run to
run, so that only what has changed is compiled.

A test of many ranks is a function in a *_cases.py, which torchrun calls by name on all ranks
and which fails by an exception on any:

    def test_something(ranks):
        ranks(4, "ddp_cases.py", "density_one_is_plain_ddp")
"""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tarfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "python"
VENV = BUILD / "venv"
PYTHON = VENV / "bin" / "python"
# Built, and not installed.
MODULES = [str(ROOT / "python" / "tests" / f"{name}_module.cc") for name in ("link", "host")]
PIP = ["-m", "pip", "--disable-pip-version-check", "--quiet"]


def run(*command) -> str:
    env = dict(os.environ, CMAKE_BUILD_PARALLEL_LEVEL=str(os.cpu_count()))
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-8000:]
    return done.stdout


def unpack(sdist: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes only what differs: an sdist's files all have the same time."""
    wanted = set()
    with tarfile.open(sdist) as tar:
        for member in tar:
            assert member.isfile(), member.name
            path = folder.joinpath(*pathlib.PurePath(member.name).parts[1:])
            wanted.add(path)
            content = tar.extractfile(member).read()
            if not path.exists() or path.read_bytes() != content:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        if path not in wanted:
            path.unlink()


def make_venv() -> None:
    run(sys.executable, "-m", "venv", "--clear", "--without-pip", VENV)
    site = run(PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    pathlib.Path(site, "torch.pth").write_text(sysconfig.get_path("purelib") + "\n")


@pytest.fixture(scope="session")
def sdist() -> pathlib.Path:
    out = BUILD / "dist"
    shutil.rmtree(out, ignore_errors=True)
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", f"--outdir={out}",
        ROOT / "python")  # fmt: skip
    (made,) = out.glob("*.tar.gz")
    return made


@pytest.fixture(scope="session")
def wheel(sdist) -> pathlib.Path:
    unpack(sdist, BUILD / "source")
    run(sys.executable, *PIP, "wheel", "--no-build-isolation", "--no-deps", "--no-index",
        f"--config-settings=build-dir={BUILD / 'cmake'}", f"--wheel-dir={sdist.parent}",
        f"--config-settings=cmake.define.TOPKNOT_TEST_MODULES={';'.join(MODULES)}",
        BUILD / "source")  # fmt: skip
    (made,) = sdist.parent.glob("*.whl")
    return made


@pytest.fixture(scope="session")
def python(wheel) -> pathlib.Path:
    """An interpreter that has the package."""
    make_venv()
    run(sys.executable, *PIP, f"--python={PYTHON}", "install", "--no-deps", "--no-index", wheel)
    return PYTHON


def environment() -> dict[str, str]:
    env = dict(os.environ)
    env.update(OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo", PYTHONDONTWRITEBYTECODE="1",
               PYTHONPATH=str(BUILD / "cmake"))  # for the modules of the tests
    return env


@pytest.fixture
def torchrun(python):
    """Starts a program on so many ranks; returns the completed process."""

    def start(count: int, *program, timeout: float = 600) -> subprocess.CompletedProcess:
        return subprocess.run(
            [python, "-m", "torch.distributed.run", "--standalone",
             f"--nproc-per-node={count}", *program],
            env=environment(), capture_output=True, text=True, timeout=timeout,
        )  # fmt: skip

    return start


@pytest.fixture
def ranks(torchrun):
    """Runs the cases of tests/FILE by these names on so many ranks."""

    def start(count: int, file: str, *names: str) -> None:
        done = torchrun(count, pathlib.Path(__file__).parent / file, *names)
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-8000:]

    return start
