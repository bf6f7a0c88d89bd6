#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of docs/tutorial.md and writes what they print into the page.

usage: scripts/tutorial.py [--in CLONE]        run everything, and write the page
       scripts/tutorial.py --check COMMAND     only see that the page's commands work

The commands are those behind "$ " in the page's blocks of ```console; all else in such a block is
what they printed. They run one after the other in a clean clone, in a temporary folder unless
--in names one, with one environment: `export` and `cd` hold for those after it. Where the page has
a line ^C, the command is interrupted once it has shown its first step. Lines of a build and those
that only a slow machine prints are left out; of many lines of progress the first and the last are
kept.

--check takes another `topknot`, as the one of the tests that trains nothing. It runs the page's
commands of topknot in an empty folder and holds the page to what they print: their exit codes, and
the first word of every line. Of the other commands it sees that there is such a thing.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```console\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
INTERRUPT = "^C"
PREEMPTED = 85
PROGRESS = re.compile(r"^epoch \d+/\d+  step \d+/\d+")
OF_A_BUILD = re.compile(r"^(\[\d+/\d+\]|== |-- |setup: |ninja: |run: torch dies|$)")
OF_PIP = re.compile(r"^ *(Looking in|Processing|Preparing|Building|Created|Stored|Installing|Attempting|Found existing|"
                    r"Uninstalling|Successfully|WARNING:|\[notice\])")
OF_WAITING = re.compile(r"^(loading|building|evaluating|in step) .*\(\d+ s\)$")  # on a slow machine
OF_TORCHRUN = re.compile(r"^(W\d{4} |\*{5}|Setting OMP_NUM_THREADS)")


class Session:
    """Runs commands as a shell would that somebody sits at."""

    def __init__(self, folder, environment):
        self.folder = folder
        self.environment = environment

    def run(self, command, interrupt=False, **more):
        """The exit code and the lines that it printed."""
        with tempfile.NamedTemporaryFile() as left:
            script = f'{command}\ncode=$?\n(pwd; env -0) >{left.name}\nexit $code\n'
            process = subprocess.Popen(
                ["bash", "-c", script], cwd=self.folder, env=self.environment | more,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, start_new_session=True)
            lines = []
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                if interrupt and PROGRESS.match(line):
                    lines.append(INTERRUPT)
                    os.killpg(process.pid, signal.SIGINT)
                    interrupt = False
            code = process.wait()
            folder, _, variables = left.read().decode().partition("\n")
        if folder and not more:
            self.folder = folder
            self.environment = dict(one.split("=", 1) for one in variables.split("\0") if one)
        return code, lines


def commands_in(block):
    """Pairs of a command and the lines below it."""
    pairs = []
    for line in block.splitlines():
        if line.startswith("$ "):
            pairs.append((line[2:], []))
        elif not pairs:
            sys.exit(f"{PAGE}: a block of console begins with {line!r}, which is no command.")
        else:
            pairs[-1][1].append(line)
    return pairs


def shortened(lines):
    """Without what a build says, and of lines of progress the first and the last."""
    lines = [line for line in lines
             if not any(one.match(line) for one in (OF_A_BUILD, OF_PIP, OF_WAITING, OF_TORCHRUN))]
    kept = []
    for at, line in enumerate(lines):
        near = [lines[i] for i in (at - 1, at + 1) if 0 <= i < len(lines)]
        if PROGRESS.match(line) and len(near) == 2 and all(map(PROGRESS.match, near)):
            if kept[-1] != "...":
                kept.append("...")
            continue
        kept.append(line.rstrip())
    return kept


def written(page, clone):
    """The page with what the commands print now, in `clone`."""
    session = Session(clone, dict(os.environ))

    def block(found):
        text = ""
        for command, before in commands_in(found[1]):
            print(f"$ {command}", flush=True)
            code, lines = session.run(command, INTERRUPT in before)
            lines = [line.replace(f"{clone}/", "") for line in lines]
            print("\n".join(lines), flush=True)
            wanted = PREEMPTED if INTERRUPT in before else 0
            if code != wanted or (INTERRUPT in before) != (INTERRUPT in lines):
                sys.exit(f"{command!r} ended with {code}, and {wanted} was expected.")
            text += "\n".join([f"$ {command}", *shortened(lines)]) + "\n"
        return f"```console\n{text}```\n"

    return BLOCK.sub(block, page)


# ---- check


def first_words(lines):
    """What does not depend on the machine, on the run or on the trainer."""
    words = {line.split()[0] for line in lines if line.strip() and not PROGRESS.match(line)}
    return {word for word in words if re.fullmatch(r"[a-z][a-z-]*", word)}


def check_other(command):
    """Of a command that is not topknot's: that there is such a thing."""
    words = command.split()
    if words[0] == "./run":
        known = re.findall(r"^  (\w+)", subprocess.run(
            [ROOT / "run", "help"], capture_output=True, text=True, check=True).stdout, re.MULTILINE)
        return words[1] in known
    files = [word for word in words if word.startswith(("examples/", "jobs/", "docs/"))]
    return words[0] in ("export", "grep", "torchrun") and all((ROOT / one).is_file() for one in files)


def check(page, command):
    """The complaints about the page, none where all its commands work."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "bin").mkdir()
        (folder / "bin" / "topknot").symlink_to(pathlib.Path(command).resolve())
        make_data(folder / "data")
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("TOPKNOT_", "OMPI_", "PMI", "SLURM_"))}
        environment["PATH"] = f"{folder / 'bin'}:{environment['PATH']}"
        session = Session(folder, environment)
        pairs = [pair for found in BLOCK.finditer(page) for pair in commands_in(found[1])]
        if not pairs:
            return ["the page has no commands."]
        return [said for words, below in pairs if (said := complaint(session, words, below))]


def make_data(folder):
    """By which topknot sees that Fashion-MNIST is there; a trainer that trains reads more."""
    folder.mkdir()
    for part in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (folder / f"{part}-ubyte.gz").touch()


def complaint(session, command, below):
    words = command.removeprefix("./run ") if command.startswith("./run train ") else command
    words = f"topknot {words}" if words != command else command
    if not words.startswith("topknot "):
        return "" if check_other(command) else f"{command!r} cannot be run."
    interrupt = INTERRUPT in below
    code, lines = session.run(words, interrupt, **({"FAKE_STEP_MS": "400"} if interrupt else {}))
    said = "\n".join(lines)
    if code != (PREEMPTED if interrupt else 0):
        return f"{command!r} ended with {code}:\n{said}"
    missing = first_words(below) - first_words(lines)
    return f"{command!r} does not say {sorted(missing)} any more:\n{said}" if missing else ""


def main(words):
    page = PAGE.read_text()
    if len(words) == 2 and words[0] == "--check":
        complaints = check(page, words[1])
        for one in complaints:
            print(f"docs/tutorial.md: {one}", file=sys.stderr)
        sys.exit(1 if complaints else 0)
    if words and (len(words) != 2 or words[0] != "--in"):
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as scratch:
        clone = words[1] if words else f"{scratch}/topknot"
        if not words:
            subprocess.run(["git", "clone", "-q", str(ROOT), clone], check=True)
        PAGE.write_text(written(page, clone))


if __name__ == "__main__":
    main(sys.argv[1:])
