# SPDX-License-Identifier: Apache-2.0
"""What is distributed, and what it says where it does not fit."""

import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import zipfile

from conftest import BUILD, ROOT, run


def test_the_sdist_has_all_that_is_compiled(sdist):
    with tarfile.open(sdist) as tar:
        names = {name.split("/", 1)[1] for name in tar.getnames()}
    for name in ("cpp/src/catalog.def", "cpp/src/transports/c10d/c10d.cc", "cpp/cmake/options.cmake",
                 "cpp/include/topknot/transport.h", "CMakeLists.txt", "LICENSE",
                 "topknot/__init__.py", "src/module.cc"):  # fmt: skip
        assert name in names, name
    assert not any(name.startswith("tests/") for name in names)


def test_the_wheel_has_code_types_and_licence(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    for name in ("topknot/__init__.py", "topknot/py.typed", "topknot/_core.pyi",
                 "topknot/_built.py"):  # fmt: skip
        assert name in names, name
    assert any(name.startswith("topknot/_core.") and name.endswith(".so") for name in names)
    assert any(name.endswith("/LICENSE") for name in names)
    assert not any(name.endswith((".cc", ".h")) for name in names)


def test_the_installed_package_lists_its_schemes(python):
    said = run(python, "-c", "import topknot; print(topknot.__version__, *topknot.schemes())")
    assert "knot" in said.split() and said.startswith("0.1.0")


def test_the_help_starts_with_attach_and_errors_are_explained(python):
    program = """
import inspect, topknot
doc = inspect.getdoc(topknot)
assert doc.index("topknot.attach(model") < doc.index("topknot.DistributedOptimizer("), doc
for name in ("Error", "ConfigError", "ContractError", "LinkError", "DisagreementError"):
    assert getattr(topknot, name).__doc__, name
for name in topknot.__all__:
    assert getattr(topknot, name).__doc__, name
"""
    run(python, "-c", program)


def test_where_amx_is_refused_onednn_is_limited_and_the_user_told(python):
    program = (
        "import os, warnings\nimport topknot\nfrom topknot import _processor\n"
        "os.environ.pop('ONEDNN_MAX_CPU_ISA', None)\n"
        "for refused in (False, True, True):\n"
        "    with warnings.catch_warnings(record=True) as said:\n"
        "        warnings.simplefilter('always')\n"
        "        _processor.limit_onednn(lambda: refused)\n"
        "    print(os.environ.get('ONEDNN_MAX_CPU_ISA'), len(said), *(one.message for one in said))"
    )
    first, second, third = run(python, "-c", program).splitlines()
    assert first == "None 0"
    assert second.startswith("AVX2 1 This processor announces AMX but does not grant it")
    assert "topknot has set ONEDNN_MAX_CPU_ISA=AVX2" in second
    assert third == "AVX2 0"  # what is set stays, and is not spoken of


def test_amx_is_refused_only_where_it_is_announced(python):
    """Twice: the child that tries it leaves nothing behind."""
    said = run(python, "-c", "import topknot._core as core\n"
               "print(core.amx_is_refused(), core.amx_is_refused())").split()
    assert said in (["True", "True"], ["False", "False"])
    if "GenuineIntel" not in pathlib.Path("/proc/cpuinfo").read_text():
        assert said == ["False", "False"]


def test_who_dies_of_an_illegal_instruction_says_what_to_set(python):
    program = (
        "import os, signal, topknot\nfrom topknot import _processor\n"
        "_processor.explain_illegal_instructions()\nos.kill(os.getpid(), signal.SIGILL)"
    )
    done = subprocess.run([python, "-c", program], capture_output=True, text=True)
    assert done.returncode == -signal.SIGILL, done
    assert done.stderr.count("set ONEDNN_MAX_CPU_ISA=AVX2 in the environment") == 1, done.stderr


def test_another_torch_is_refused_with_a_sentence(python):
    program = (
        "import torch, sys; torch.__version__ = '1.2.3'\n"
        "try:\n    import topknot\nexcept ImportError as error:\n    print(error)"
    )
    said = run(python, "-c", program)
    assert "was built against torch" in said and "this is torch 1.2.3" in said
    assert "pip install torch==" in said


def test_no_torch_is_refused_with_a_sentence(python, tmp_path):
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "try:\n    import topknot\nexcept ImportError as error:\n    print(error)"
    )
    assert "topknot needs torch, which is not installed here" in run(python, "-c", program)


def test_an_adapter_without_its_framework_says_so(python):
    program = """
import importlib, sys
sys.modules.update(lightning=None, pytorch_lightning=None, accelerate=None, transformers=None)
for name in ("lightning", "accelerate", "transformers"):
    try:
        importlib.import_module(f"topknot.{name}")
    except ImportError as error:
        print(error)
"""
    said = run(python, "-c", program).splitlines()
    assert len(said) == 3
    for line, name in zip(said, ("lightning", "accelerate", "transformers"), strict=True):
        assert line.startswith(f"topknot.{name} needs ") and f"pip install {name}" in line


def test_a_build_without_torch_says_so(tmp_path):
    """By configuring in the tree, with an interpreter that has no torch."""
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare")
    done = subprocess.run(
        ["cmake", "-S", ROOT / "python", "-B", tmp_path / "build", "-G", "Ninja",
         f"-DPython_EXECUTABLE={tmp_path / 'bare' / 'bin' / 'python'}"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode != 0
    assert "topknot is built against torch" in done.stderr


def test_an_isolated_build_takes_the_torch_that_is_installed(tmp_path):
    """pip hides what is installed from a build, by a sitecustomize as here."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, sysconfig\nsys.path.remove(sysconfig.get_path('purelib'))\n"
    )
    blind = tmp_path / "python"
    blind.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    blind.chmod(0o755)
    assert subprocess.run([blind, "-c", "import torch"], capture_output=True).returncode != 0
    said = run("cmake", "-S", ROOT / "python", "-B", tmp_path / "build", "-G", "Ninja",
               f"-DPython_EXECUTABLE={blind}")  # fmt: skip
    assert "-- torch 2." in said


def test_a_build_names_the_packages_that_it_misses(tmp_path):
    done = subprocess.run(
        ["cmake", "-S", ROOT / "python", "-B", tmp_path / "build", "-G", "Ninja",
         f"-DPython_EXECUTABLE={sys.executable}"],
        env=dict(os.environ, PKG_CONFIG_LIBDIR=str(tmp_path)), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode != 0
    assert "misses what Debian has as: libhwy-dev libxxhash-dev." in " ".join(done.stderr.split())


def test_the_stub_names_all_that_the_binding_has(python):
    program = """
import ast, inspect, pathlib
from topknot import _core
stub = ast.parse(pathlib.Path(_core.__file__).with_name("_core.pyi").read_text())
told = {}
for node in stub.body:
    name = getattr(node, "name", None) or getattr(getattr(node, "target", None), "id", None)
    told[name] = {one.name for one in getattr(node, "body", []) if hasattr(one, "name")}
for name in dir(_core):
    if name.startswith("_"):
        continue
    assert name in told, name
    if inspect.isclass(getattr(_core, name)) and not issubclass(getattr(_core, name), Exception):
        has = {one for one in vars(getattr(_core, name)) if not one.startswith("_")}
        assert has == told[name] - {"__init__"}, has ^ told[name]
"""
    run(python, "-c", program)


def test_every_function_shows_an_example(python):
    program = """
import inspect, topknot
for name in topknot.__all__:
    one = getattr(topknot, name)
    if inspect.isclass(one) and name != "SparseAllreduce":  # what functions raise and return
        continue
    assert any(name + "(" in line for line in inspect.getdoc(one).splitlines()[2:]), name
"""
    run(python, "-c", program)


def test_the_tree_builds_without_an_sdist():
    """What `pip install ./python` does: the library is taken from next door."""
    run("cmake", "-S", ROOT / "python", "-B", BUILD / "tree", "-G", "Ninja",
        f"-DPython_EXECUTABLE={sys.executable}")  # fmt: skip
    ninja = pathlib.Path(BUILD, "tree", "build.ninja").read_text()
    assert str(ROOT / "src" / "catalog.cc") in ninja
