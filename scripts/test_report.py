#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What ./run test ends with: every skip with its reason, the seconds by part, and the counts.

    test_report.py RESULTS        exits 1 when anything failed

RESULTS is a folder. *.xml in it are JUnit files of ctest and pytest. parts.tsv has a line for
every part of the run: its name, its exit code, its seconds, and why it was skipped if it was.
A program of many tests counts as many, as far as it says how many it has run.
"""

import dataclasses
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

GTEST_RAN = re.compile(r"^\[=+\] (\d+) tests? from \d+ test suites? ran\.", re.MULTILINE)
GTEST_FAILED = re.compile(r"^\[  FAILED  \] (\d+) tests?, listed below", re.MULTILINE)
GTEST_SKIP = re.compile(r"^\S+:\d+: Skipped\n(.*?)\n*^\[  SKIPPED \] (\S+) \(", re.MULTILINE | re.DOTALL)
GTEST_SKIPPED = re.compile(r"^\[  SKIPPED \] (\S+) \(", re.MULTILINE)
UNITTEST_RAN = re.compile(r"^Ran (\d+) tests? in ", re.MULTILINE)
UNITTEST_FAILED = re.compile(r"\b(?:failures|errors)=(\d+)")
UNITTEST_SKIP = re.compile(r"^(\w+) \(.*?\)(?:\n.*?)? \.\.\. skipped ['\"](.*)['\"]$", re.MULTILINE)
NO_REASON = "it gives no reason"


@dataclasses.dataclass
class Tally:
    passed: int = 0
    failed: list[str] = dataclasses.field(default_factory=list)
    skipped: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # name, reason
    seconds: int = 0


def add_program(tally: Tally, name: str, output: str, failed: bool) -> None:
    """A program that has run: how many tests it had, by its own count."""
    skips = [(f"{name} {test}", reason.strip()) for reason, test in GTEST_SKIP.findall(output)]
    told = {test for test, _ in skips}
    for test in GTEST_SKIPPED.findall(output):
        if f"{name} {test}" not in told:
            skips.append((f"{name} {test}", NO_REASON))
    skips += [(f"{name} {test}", reason) for test, reason in UNITTEST_SKIP.findall(output)]
    ran = sum(map(int, GTEST_RAN.findall(output) + UNITTEST_RAN.findall(output)))
    failures = sum(map(int, GTEST_FAILED.findall(output)))
    if UNITTEST_RAN.search(output) and "FAILED (" in output:
        failures += sum(map(int, UNITTEST_FAILED.findall(output)))
    if failed:
        tally.failed += [name] * max(failures, 1)
    tally.skipped += [(test, reason or NO_REASON) for test, reason in skips]
    tally.passed += max(ran, 0 if failed else 1) - len(skips) - min(failures, ran)


def add_junit(tally: Tally, path: Path) -> None:
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = f"{path.stem}: {case.get('name')}"
        output = case.findtext("system-out") or ""
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            add_program(tally, name, output, failed=True)
        elif skipped is None:
            add_program(tally, name, output, failed=False)
        elif skipped.get("type") == "pytest.skip":
            tally.skipped.append((name, skipped.get("message") or NO_REASON))
        elif str(skipped.get("message")).startswith("SKIP_R"):  # what the program says tells more
            said = output.strip().split("\n")[-1].removeprefix("skipped: ")
            tally.skipped.append((name, said or NO_REASON))
        else:  # ctest could not start it, or what it needs has failed
            tally.failed.append(name)


def add_parts(tally: Tally, path: Path, counted: set[str]) -> list[str]:
    """Takes in the parts, and returns a line on each."""
    lines = []
    for line in path.read_text().splitlines():
        name, code, seconds, reason = line.split("\t")
        tally.seconds += int(seconds)
        lines.append(f"  {name:<16}{seconds:>6} s")
        if reason:
            tally.skipped.append((name, reason))
        elif name in counted and (code == "0" or any(x.startswith(name + ":") for x in tally.failed)):
            continue  # its tests were counted one by one
        elif code == "0":
            tally.passed += not name.startswith("build ")
        else:
            tally.failed.append(name)
    return lines


def report(folder: Path) -> tuple[str, bool]:
    tally = Tally()
    files = sorted(folder.glob("*.xml"))
    for path in files:
        add_junit(tally, path)
    parts = add_parts(tally, folder / "parts.tsv", {path.stem for path in files})
    lines = ["", "== seconds", *parts]
    if tally.skipped:
        lines += ["", "== skipped"]
        reasons: dict[str, list[str]] = {}
        for name, reason in tally.skipped:
            reasons.setdefault(reason, []).append(name)
        for reason, names in sorted(reasons.items()):
            lines.append(f"  {reason} ({len(names)})")
            lines += [f"    {name}" for name in names]
    if tally.failed:
        lines += ["", "== failed", *(f"  {name}" for name in dict.fromkeys(tally.failed))]
    lines += ["", f"{tally.passed} passed, {len(tally.failed)} failed, "
              f"{len(tally.skipped)} skipped in {tally.seconds} s"]
    return "\n".join(lines), not tally.failed


if __name__ == "__main__":
    text, passed = report(Path(sys.argv[1]))
    print(text)
    sys.exit(0 if passed else 1)
