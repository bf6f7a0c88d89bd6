# SPDX-License-Identifier: Apache-2.0
"""What scripts/test_report.py makes of what ctest and pytest have written."""

import importlib.util
import tempfile
import unittest
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("test_report", ROOT / "scripts" / "test_report.py")
test_report = importlib.util.module_from_spec(spec)
spec.loader.exec_module(test_report)

GTEST = """[==========] Running 4 tests from 2 test suites.
[ RUN      ] Cifar.Real
/src/tests/cifar_test.cc:117: Skipped
TOPKNOT_DATA does not name the real sets

[  SKIPPED ] Cifar.Real (0 ms)
[ RUN      ] Folder.Full
/src/tests/folder_test.cc:20: Skipped


[  SKIPPED ] Folder.Full (0 ms)
[==========] 4 tests from 2 test suites ran. (14 ms total)
[  PASSED  ] 2 tests.
[  SKIPPED ] 2 tests, listed below:
[  SKIPPED ] Cifar.Real
[  SKIPPED ] Folder.Full
"""
UNITTEST = """test_a (__main__.Case.test_a) ... ok
test_b (__main__.Case.test_b)
With a line of its own. ... skipped 'built without MPI'
test_c (__main__.Case.test_c) ... skipped "there's torch"
----------------------------------------------------------------------
Ran 3 tests in 0.020s

OK (skipped=2)
"""


def case(name: str, output: str = "", inner: str = "", status: str = "run") -> str:
    return (f'<testcase name="{name}" status="{status}">{inner}'
            f"<system-out>{escape(output)}</system-out></testcase>")


class Report(unittest.TestCase):
    def of(self, cases: str = "", parts: str = "") -> tuple[str, bool]:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "release.xml").write_text(f"<testsuite>{cases}</testsuite>")
            Path(folder, "parts.tsv").write_text(parts)
            return test_report.report(Path(folder))

    def last_line(self, *arguments: str) -> str:
        return self.of(*arguments)[0].splitlines()[-1]

    def test_counts_the_tests_in_a_program_of_gtest(self):
        text, passed = self.of(case("cifar", GTEST))
        self.assertTrue(passed)
        self.assertIn("  TOPKNOT_DATA does not name the real sets (1)\n    release: cifar Cifar.Real",
                      text)
        self.assertIn("  it gives no reason (1)\n    release: cifar Folder.Full", text)
        self.assertEqual(text.splitlines()[-1], "2 passed, 0 failed, 2 skipped in 0 s")

    def test_counts_the_tests_in_a_script_of_unittest(self):
        text, _ = self.of(case("command", UNITTEST))
        self.assertIn("  built without MPI (1)\n    release: command test_b", text)
        self.assertIn("  there's torch (1)\n    release: command test_c", text)
        self.assertEqual(text.splitlines()[-1], "1 passed, 0 failed, 2 skipped in 0 s")

    def test_one_reason_is_said_once_with_all_who_gave_it(self):
        text, _ = self.of(case("a", UNITTEST) + case("b", UNITTEST))
        self.assertIn("  built without MPI (2)\n    release: a test_b\n    release: b test_b", text)

    def test_a_program_that_says_nothing_is_one_test(self):
        self.assertEqual(self.last_line(case("a") + case("b")), "2 passed, 0 failed, 0 skipped in 0 s")

    def test_a_program_that_skips_itself_gives_its_reason(self):
        for message in ("SKIP_RETURN_CODE=77", "SKIP_REGULAR_EXPRESSION_MATCHED"):
            skipped = f'<skipped message="{message}"/>'
            text, passed = self.of(case("a", "looks\nskipped: there is no strace\n", skipped, "notrun"))
            self.assertTrue(passed)
            self.assertIn("  there is no strace (1)\n    release: a", text)

    def test_a_test_that_could_not_be_started_has_failed(self):
        for message in ("Unable to find executable", "Fixture dependency failed"):
            text, passed = self.of(case("a", "", f'<skipped message="{message}"/>', "notrun"))
            self.assertFalse(passed)
            self.assertIn("== failed\n  release: a\n", text)

    def test_counts_failures_in_a_program_and_a_death_as_one(self):
        broken = GTEST.replace("[  PASSED  ] 2 tests.",
                               "[  PASSED  ] 1 test.\n[  FAILED  ] 1 test, listed below:")
        failure = '<failure message=""/>'
        self.assertEqual(self.last_line(case("a", broken, failure, "fail")),
                         "1 passed, 1 failed, 2 skipped in 0 s")
        self.assertEqual(self.last_line(case("a", "[==========] Running", failure, "fail")),
                         "0 passed, 1 failed, 0 skipped in 0 s")

    def test_skips_of_pytest_have_their_message(self):
        skipped = '<skipped type="pytest.skip" message="no second host"/>'
        text, passed = self.of(case("a", "", skipped))
        self.assertTrue(passed)
        self.assertIn("  no second host (1)\n    release: a", text)

    def test_parts_are_timed_and_count_where_their_tests_do_not(self):
        text, passed = self.of(case("a"), "format\t0\t3\t\nbuild release\t0\t100\t\n"
                                          "release\t0\t20\t\npython\t0\t0\tno torch\n")
        self.assertTrue(passed)
        self.assertIn("  build release      100 s\n", text)
        self.assertEqual(text.splitlines()[-1], "2 passed, 0 failed, 1 skipped in 123 s")

    def test_a_part_that_failed_otherwise_than_by_its_tests_has_failed(self):
        text, passed = self.of(case("a"), "release\t1\t20\t\nlayers\t1\t0\t\n")
        self.assertFalse(passed)
        self.assertIn("== failed\n  release\n  layers\n", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # with the reasons of what is skipped
