#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of a job's keys in docs/train.md from `topknot train --keys`.

usage: scripts/keys_table.py COMMAND

COMMAND is the topknot command.
"""

import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "train.md"
TABLE = re.compile(r"(?<=\| key \| range \| default \| meaning \|\n\|---\|---\|---\|---\|\n)(?:\|.*\n)+")


def rows(command: str) -> str:
    out = subprocess.run([command, "train", "--keys"], check=True, capture_output=True, text=True)
    lines = out.stdout.splitlines()
    text = ""
    for first, second in zip(lines[::2], lines[1::2]):
        name, meaning = first.split(maxsplit=1)
        kind, default = second.strip().rsplit("; default ", 1)
        text += f"| `{name}` | {kind} | {default} | {meaning} |\n"
    return text


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    PAGE.write_text(TABLE.sub(lambda _: rows(sys.argv[1]), PAGE.read_text(), count=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
