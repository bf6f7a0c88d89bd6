#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What can be known of the files in packaging/ without building a package."""

import ast
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

TREE = Path(__file__).resolve().parent.parent.parent
PACKAGING = TREE / "packaging"
# Of scripts/setup: what only tests, namespaces and pictures need.
ONLY_FOR_TESTS = {"libgtest-dev", "librapidcheck-dev", "libbenchmark-dev", "iproute2", "util-linux"}


def setup_packages():
    text = (TREE / "scripts" / "setup").read_text()
    return set(re.search(r"^packages=\((.*?)\)", text, re.DOTALL | re.MULTILINE).group(1).split())


def torch_version():
    return re.search(r"torch==[\d.]+", (TREE / "scripts" / "setup").read_text()).group(0)


def run(*words):
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False,
                          timeout=120)


class Recipes(unittest.TestCase):
    def test_images_have_what_setup_installs(self):
        for name in ("Dockerfile", "apptainer.def"):
            text = (PACKAGING / name).read_text()
            install = re.search(r"recommends install \\\n(.*?)(&&|\n    python3 -m)", text,
                                re.DOTALL).group(1)
            here = set(install.replace("\\", " ").split())
            self.assertEqual(setup_packages() - ONLY_FOR_TESTS - here, set(), name)
            self.assertIn(torch_version(), text)

    def test_every_option_that_a_recipe_gives_is_one_of_cmakes(self):
        known = set(re.findall(r"\b(?:option|set)\((TOPKNOT_\w+)",
                               (TREE / "CMakeLists.txt").read_text()))
        for file in PACKAGING.rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                given = set(re.findall(r"TOPKNOT_[A-Z]+\b", file.read_text()))
                self.assertEqual(given - known, set(), file.name)


class Spack(unittest.TestCase):
    def setUp(self):
        self.tree = ast.parse((PACKAGING / "spack" / "package.py").read_text())

    def test_it_is_one_package_with_all_that_cmake_looks_for(self):
        (package,) = [node for node in self.tree.body if isinstance(node, ast.ClassDef)]
        self.assertEqual(package.name, "Topknot")
        needs = {call.args[0].value.split("@")[0].split()[0] for call in ast.walk(package)
                 if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "depends_on"}
        found = (TREE / "cmake" / "dependencies.cmake").read_text()
        names = {"hwy": "highway", "xxhash": "xxhash", "utf8proc": "utf8proc",
                 "sndfile": "libsndfile", "CLI11": "cli11", "fmt": "fmt",
                 "nlohmann_json": "nlohmann-json", "tomlplusplus": "tomlplusplus",
                 "ZLIB": "zlib-api", "JPEG": "jpeg", "MPI": "mpi", "Torch": "py-torch"}
        wanted = set(re.findall(r"(?:find_package|pkg_check_modules)\((\w+)", found))
        wanted -= {"Threads", "PkgConfig"}
        self.assertEqual({names[one] for one in wanted} - needs, set())


class Install(unittest.TestCase):
    def refused(self, *words, said):
        out = run(PACKAGING / "install", *words)
        self.assertEqual(out.returncode, 2, out.stderr)
        self.assertIn(said, out.stderr)

    def test_what_it_cannot_do_is_said_in_a_sentence(self):
        self.refused(said="--prefix DIR")
        self.refused("--prefix", said="needs a folder")
        self.refused("--perfix", "/tmp", said="neither --prefix")
        with tempfile.NamedTemporaryFile() as file:
            self.refused("--prefix", Path(file.name) / "under", said="cannot be made")

    def test_its_help_is_its_head(self):
        out = run(PACKAGING / "install", "--help")
        self.assertEqual(out.returncode, 0)
        self.assertIn("--prefix ~/topknot", out.stdout)


class Polaris(unittest.TestCase):
    def test_its_commands_can_be_printed(self):
        out = run(TREE / "scripts" / "setup-polaris", "--print", "/some/where")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertIn("+ module load PrgEnv-gnu", out.stderr)
        self.assertIn("packaging/install --prefix /some/where", out.stderr)
        self.assertIn(torch_version(), out.stderr)
        self.assertEqual(run(TREE / "scripts" / "setup-polaris").returncode, 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
