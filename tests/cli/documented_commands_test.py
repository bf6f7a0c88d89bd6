# SPDX-License-Identifier: Apache-2.0
"""The commands of README.md and docs/coming-from/ are understood by the command as it is.

usage: documented_commands_test.py TOPKNOT

Commands are the lines of blocks that are indented by four, and in coming-from/ the first code of the column
"ours". Training is cut short by --dry-run, a comparison by --list; a data set that is not here is no
fault of the page. Of other programs it is seen that the files they are given exist.
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOPKNOT = pathlib.Path(sys.argv.pop()).resolve()
NO_DATA = 65
BLOCK_LINE = re.compile(r"^    (?! )(\S.*)$", re.MULTILINE)
OURS = re.compile(r"^\|.*\| `((?:topknot|mpirun|srun|sbatch|[A-Z]+=)[^`]*)`[^|]*\|$", re.MULTILINE)
STOPPED_BY = {"train": ["--dry-run"], "compare": ["--list"]}
OF_A_SHELL = {"cmake", "source", "export", "git", "cd", "pip"}


def without_fences(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def in_blocks(page: pathlib.Path) -> list[str]:
    lines = BLOCK_LINE.findall(without_fences(page.read_text()))
    return [line for line in lines if not line.startswith(("COLLECTIVE(", "COST("))]


def in_tables(page: pathlib.Path) -> list[str]:
    return [found for found in OURS.findall(page.read_text()) if " " in found]


def words_of(command: str) -> list[str]:
    """Without comments, variables before the program, and sudo."""
    words = shlex.split(command, comments=True)
    while words and (re.match(r"[A-Z_]+=", words[0]) or words[0] == "sudo"):
        words.pop(0)
    return words


class DocumentedCommands(unittest.TestCase):
    def complaint(self, command: str) -> str:
        words = words_of(command)
        at = next((i for i, word in enumerate(words) if pathlib.Path(word).name == "topknot"), None)
        if words[0] == "./run":
            return self.of_run(words)
        if at is None or words[0] == "source":
            missing = [word for word in words if word.startswith(("jobs/", "examples/", "scripts/"))
                       and not (ROOT / word).is_file()]
            known = words[0] in OF_A_SHELL or words[0] in ("sbatch", "torchrun") or words[0].startswith("scripts/")
            return f"there is no {missing[0]}" if missing else "" if known else "is not known to this test"
        return self.of_topknot(words[at + 1 :])

    def of_run(self, words: list[str]) -> str:
        if words[1:2] == ["bench"]:
            names = {path.stem for path in (ROOT / "bench").glob("*.py")}
            return "" if "tables" in names else "bench/tables.py is missing"
        if words[1:2] == ["train"] and len(words) > 2:
            return self.of_topknot(words[1:])
        known = re.findall(r"^  (\w+)", (ROOT / "run").read_text(), re.MULTILINE)
        return "" if words[1] in known else f"./run has no {words[1]}"

    def of_topknot(self, words: list[str]) -> str:
        if "--resume" in words:  # wants the run that an earlier line made
            words = [word for word in words if word != "--resume"]
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([TOPKNOT, *words, *STOPPED_BY.get(words[0], [])], cwd=folder, capture_output=True,
                                  text=True, timeout=120, env={**os.environ, "HOME": folder})
        if done.returncode in (0, NO_DATA):
            return ""
        return f"ended with {done.returncode}: {done.stderr[-500:]}"

    def hold(self, page: pathlib.Path, commands: list[str], at_least: int) -> None:
        self.assertGreaterEqual(len(commands), at_least, page)
        for command in commands:
            with self.subTest(page=page.name, command=command):
                self.assertEqual(self.complaint(command), "")

    def test_of_the_readme(self):
        page = ROOT / "README.md"
        self.hold(page, in_blocks(page), 8)

    def test_of_the_pages_for_other_systems(self):
        for name in ("ok-topk", "gtopk", "adtopk", "exdyna"):
            page = ROOT / "docs" / "coming-from" / f"{name}.md"
            self.hold(page, in_tables(page), 6)

    def test_a_command_that_is_wrong_is_found(self):
        for command in ("topknot train quickstart --schem knot", "mpirun -n 4 topknot train no-such-job",
                        "sbatch jobs/slurm/no-such-job.sh", "./run nothing", "topknot list no-such-thing"):
            self.assertNotEqual(self.complaint(command), "", command)


if __name__ == "__main__":
    unittest.main()
