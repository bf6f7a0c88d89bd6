# SPDX-License-Identifier: Apache-2.0
"""What ./run says and does, without building anything: in a tree of its own, with stand-ins for
the programs that it calls."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Notes how it was called, and gives the results that the test has laid down for the preset.
CTEST = """#!/usr/bin/env python3
import os, pathlib, shutil, sys
fake = pathlib.Path(os.environ["FAKE"])
preset = pathlib.Path(sys.argv[sys.argv.index("--test-dir") + 1]).name
isa = os.environ.get("ONEDNN_MAX_CPU_ISA", "any")
with (fake / "calls").open("a") as calls:
    calls.write(f"ctest {preset} {isa} {' '.join(sys.argv[1:])}\\n")
if "--output-junit" in sys.argv:
    shutil.copy(fake / f"{preset}.xml", sys.argv[sys.argv.index("--output-junit") + 1])
code = fake / f"{preset}.code"
sys.exit(int(code.read_text()) if code.exists() else 0)
"""
CMAKE = """#!/bin/sh
echo "cmake $*" >>"$FAKE/calls"
case "$*" in *--build*/$FAILING_BUILD*) exit 1 ;; esac
"""
# Answers pytest with results, and the probe of bf16 as a processor without AMX would.
PYTHON = """#!/bin/sh
case "$*" in
  *bfloat16*) case " $GRANTED " in *" ${ONEDNN_MAX_CPU_ISA:-any} "*) exit 0 ;; esac; kill -ILL $$ ;;
  *pytest*) echo "pytest ${ONEDNN_MAX_CPU_ISA:-any}" >>"$FAKE/calls"
    cp "$FAKE/python.xml" build/results/python.xml ;;
esac
"""
ONE_PASSES = '<testsuite><testcase name="one" status="run"/></testsuite>'


class Tree(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name)
        self.fake = self.root / "fake"
        self.fake.mkdir()
        for name in ("run", "scripts/test_report.py"):
            (self.root / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        self.program("scripts/setup", "#!/bin/sh\n")
        (self.root / "scripts/check_layers.py").write_text("")
        (self.root / "src").mkdir()
        (self.root / "src/a.cc").write_text("")
        self.program("bin/ctest", CTEST)
        self.program("bin/cmake", CMAKE)
        self.program("bin/clang-format-16", "#!/bin/sh\n")
        self.program("bin/clang++-16", "#!/bin/sh\n")
        self.program("bin/mpicxx.mpich", "#!/bin/sh\n")
        self.program("bin/mpirun.mpich", "#!/bin/sh\n")
        self.program(".venv/bin/python", PYTHON)
        for preset in ("release", "mpich", "asan", "tsan", "fuzz", "python"):
            (self.fake / f"{preset}.xml").write_text(ONE_PASSES)

    def program(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run_script(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
        env = {**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}", "FAKE": str(self.fake),
               "GRANTED": "any", "FAILING_BUILD": "none", **environment}
        env.pop("ONEDNN_MAX_CPU_ISA", None)
        return subprocess.run([self.root / "run", *arguments], capture_output=True, text=True,
                              cwd=self.root, env=env, timeout=100)

    def calls(self) -> list[str]:
        return (self.fake / "calls").read_text().splitlines()


class Words(Tree):
    def test_help_names_every_command(self):
        done = self.run_script("help")
        self.assertEqual(done.returncode, 0)
        for command in ["build", "test", "faults", "soak", "mutants", "fuzz", "bench", "train", "format", "tidy", "help"]:
            self.assertRegex(done.stdout, rf"(?m)^  {command}\b")
        self.assertEqual(self.run_script().stdout, done.stdout)

    def test_an_unknown_command_is_refused(self):
        done = self.run_script("bild")
        self.assertEqual(done.returncode, 2)
        self.assertIn("'bild'", done.stderr)


class Everything(Tree):
    def test_all_parts_are_run_and_counted(self):
        done = self.run_script("test")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        # format, layers, and one test each of six parts
        self.assertRegex(done.stdout.splitlines()[-1], r"^8 passed, 0 failed, 0 skipped in \d+ s$")
        tests = [line.split()[1] for line in self.calls() if line.startswith("ctest")]
        self.assertEqual(tests, ["release", "mpich", "asan", "tsan", "fuzz"])
        self.assertIn("pytest any", self.calls())

    def test_a_sanitizer_has_the_tests_with_its_label(self):
        self.run_script("test")
        for preset in ("asan", "tsan"):
            (build,) = [line for line in self.calls() if f"--build {self.root}/build/{preset}" in line]
            self.assertTrue(build.endswith(f"--target {preset}_tests"), build)
            (test,) = [line for line in self.calls() if line.startswith(f"ctest {preset} ")]
            self.assertIn(f"-L ^{preset}$", test)

    def test_a_failure_does_not_keep_the_rest_from_running(self):
        (self.fake / "release.xml").write_text(
            '<testsuite><testcase name="good" status="run"/>'
            '<testcase name="bad" status="fail"><failure message=""/></testcase></testsuite>')
        (self.fake / "release.code").write_text("8")
        done = self.run_script("test")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout.splitlines()[-1], r"^8 passed, 1 failed, 0 skipped in \d+ s$")
        self.assertIn("  release: bad\n", done.stdout)
        self.assertIn("run: release failed", done.stderr)
        self.assertIn("ctest fuzz", "\n".join(self.calls()))

    def test_what_does_not_build_has_failed(self):
        done = self.run_script("test", FAILING_BUILD="asan")
        self.assertEqual(done.returncode, 1)
        self.assertIn("  build asan\n", done.stdout)
        self.assertRegex(done.stdout.splitlines()[-1], r"^7 passed, 1 failed, 0 skipped in \d+ s$")

    def test_a_part_that_ends_without_results_has_failed(self):
        for code in ("release.code", "python.xml"):
            with self.subTest(code):
                (self.fake / "release.code").write_text("1" if code == "release.code" else "0")
                if code == "python.xml":
                    (self.fake / code).unlink()
                done = self.run_script("test")
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(" 1 failed", done.stdout.splitlines()[-1])

    def test_what_cannot_be_run_is_listed_with_its_reason(self):
        self.program("bin/clang++-16", "#!/bin/sh\nexit 1\n")
        done = self.run_script("test", TOPKNOT_TORCH="OFF")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout.splitlines()[-1], r"^6 passed, 0 failed, 2 skipped in \d+ s$")
        self.assertIn("  there is no clang++-16 with libFuzzer here (1)\n    fuzz\n", done.stdout)
        self.assertIn("  the Python package needs torch, and there is none (1)\n    python\n",
                      done.stdout)

    def test_only_some_are_run_when_told_so(self):
        done = self.run_script("test", "-R", "wire")
        self.assertEqual(done.returncode, 0, done.stderr)
        (test,) = [line for line in self.calls() if line.startswith("ctest")]
        self.assertTrue(test.endswith("-R wire"), test)


class Bf16(Tree):
    """torch, on a processor that announces AMX and does not grant it."""

    def isa_of_tests(self) -> set[str]:
        return {line.split()[2 if line.startswith("ctest") else 1] for line in self.calls()
                if line.startswith(("ctest", "pytest"))}

    def test_where_it_works_nothing_is_set_or_said(self):
        done = self.run_script("test")
        self.assertEqual(self.isa_of_tests(), {"any"})
        self.assertNotIn("SIGILL", done.stdout + done.stderr)

    def test_where_it_dies_the_widest_that_works_is_set_and_said(self):
        for granted, isa in (("AVX512_CORE AVX2", "AVX512_CORE"), ("AVX2", "AVX2")):
            with self.subTest(isa):
                (self.fake / "calls").write_text("")
                done = self.run_script("test", GRANTED=granted)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertEqual(self.isa_of_tests(), {isa})
                said = [line for line in done.stdout.splitlines() if "SIGILL" in line]
                self.assertEqual(len(said), 1, done.stdout)
                self.assertIn(f"the tests run with ONEDNN_MAX_CPU_ISA={isa}.", said[0])
                self.assertEqual(done.stderr, "")

    def test_where_nothing_helps_it_is_said(self):
        done = self.run_script("test", GRANTED="")
        self.assertIn("with ONEDNN_MAX_CPU_ISA=AVX2, too", done.stdout)
        self.assertEqual(self.isa_of_tests(), {"any"})


if __name__ == "__main__":
    unittest.main(verbosity=2)  # with the reasons of what is skipped
