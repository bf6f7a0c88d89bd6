#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stops and kills ranks of real jobs, and holds what is left of each job to its promises.

    kills.py RUNS GRACE mpirun REDUCE_FOREVER MPIRUN [MPIRUN-ARGUMENTS]
    kills.py RUNS GRACE torchrun PYTHON [REDUCE_FOREVER]

Every run is a job of four processes that reduce by some collective, with a deadline of 2 s. At some moment one
rank gets SIGSTOP, or SIGKILL while the launcher stands aside, which leaves it to the ranks to notice: under Open MPI's
`mpirun --enable-recovery`, MPICH's `mpirun -disable-auto-cleanup`, and under torchrun by a wrapper that tells it of no
death. Then

- every other rank ends with exit code 75 within the deadline and GRACE seconds,
- and prints one line, which names the rank, and the step and the phase where it waited for it. The first rank that
  ends tells mpirun to end the others, half a second later: one that had no core until then prints nothing,
- and dumps what it did last, where `topknot flight` then finds that rank, if REDUCE_FOREVER is there to say so.

Prints a line for each run that breaks a promise, and the figures of all. Exits 1 where one was broken.

TOPKNOT_SEED=N draws other ranks and moments. KILLS_RECORD=FILE adds a line for each run to FILE, and the figures are
those of all its lines, so that many runs can be made a few at a time.
"""

import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RANKS = 4
DEADLINE = 2.0
HUNG = 30.0
START = 120.0
COLLECTIVES = ("knot", "oktopk", "topka", "gtopk", "spardl", "dense", "ssar", "hierarchical:group=2")
ENV = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1",
       "GLOO_SOCKET_IFNAME": "lo"}
# Leaves the process's number, then its exit code, in files named for the rank. MPICH tells the processes by SIGUSR1 that
# one of them has died; its handler is the program's.
WRAPPER = """#!/bin/bash
folder=$1
shift
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$RANK}}
trap 'kill -USR1 $child' USR1
"$@" 2>"$folder/said-$rank" &
child=$!
echo $child >"$folder/pid-$rank.new"
mv "$folder/pid-$rank.new" "$folder/pid-$rank"
wait $child
code=$?
while kill -0 $child 2>/dev/null; do
  wait $child
  code=$?
done
echo $code >"$folder/code-$rank"
"""


class Mpirun:
    """reduce_forever.cc by mpirun."""

    collectives = COLLECTIVES
    # By a word of `mpirun --version`: what makes it stand aside when a rank dies.
    STAND_ASIDE = {"Open MPI": "--enable-recovery", "OpenRTE": "--enable-recovery", "HYDRA": "-disable-auto-cleanup"}

    def __init__(self, reader, *mpirun):
        self.reader, self.mpirun = reader, mpirun
        version = subprocess.run([mpirun[0], "--version"], capture_output=True, text=True, check=False).stdout
        self.aside = next((flag for word, flag in self.STAND_ASIDE.items() if word in version), None)

    def command(self, wrapper, folder, collective, number):
        aside = [self.aside] if number == signal.SIGKILL else []
        return [*self.mpirun, *aside, "-n", str(RANKS), wrapper, folder, self.reader, folder, collective, str(DEADLINE)]

    def why_not(self):
        if self.aside is None:
            return f"{self.mpirun[0]} is neither Open MPI's nor MPICH's: it is not known how to make it stand aside"
        return None

    def ended_wrong(self, number, code):
        return number == signal.SIGSTOP and code != 75


class Torchrun:
    """reduce_forever.py by torchrun."""

    collectives = ("knot", "oktopk", "topka", "gtopk", "spardl", "dense", "deft", "exdyna")

    def __init__(self, python, reader=None):
        self.python, self.reader = python, reader

    def command(self, wrapper, folder, collective, number):
        program = Path(__file__).with_name("reduce_forever.py")
        return [self.python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}", "--no-python",
                wrapper, folder, self.python, program, folder, collective, str(DEADLINE)]

    def why_not(self):
        return None

    def ended_wrong(self, number, code):
        return False  # the wrapper hides the codes from it


class Run:
    """A job, one of whose ranks gets a signal."""

    def __init__(self, launcher, collective, number):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name)
        self.number = number
        self.launcher = launcher
        wrapper = self.path / "wrapper"
        wrapper.write_text(WRAPPER)
        wrapper.chmod(0o755)
        self.job = subprocess.Popen(launcher.command(wrapper, self.folder.name, collective, number), env=ENV,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def pid(self, rank):
        """The process of a rank, once it takes steps."""
        give_up = time.monotonic() + START
        while not (self.path / f"ready-{rank}").exists():
            if time.monotonic() > give_up:
                raise RuntimeError("the job does not start")
            time.sleep(0.02)
        return int((self.path / f"pid-{rank}").read_text())

    def code(self, rank):
        file = self.path / f"code-{rank}"
        return int(file.read_text() or -1) if file.exists() else None

    def hurt(self, rank, pause):
        """Sends the signal, and waits for the others to end. Returns the seconds that took."""
        pids = [self.pid(r) for r in range(RANKS)]
        others = [r for r in range(RANKS) if r != rank]
        time.sleep(pause)
        os.kill(pids[rank], self.number)
        start = time.monotonic()
        while time.monotonic() < start + HUNG and not all(gone(pids[r]) for r in others):
            time.sleep(0.01)
        seconds = time.monotonic() - start
        for pid in pids:
            if not gone(pid):
                os.kill(pid, signal.SIGKILL)
        try:
            self.job.wait(HUNG)
        except subprocess.TimeoutExpired:
            self.job.kill()
            self.job.wait()
        return seconds

    def broken(self, rank, seconds, grace):
        """The promises that the run has broken."""
        faults = []
        self.spoke = 0
        if seconds >= HUNG:
            faults.append("hung")
        elif seconds > DEADLINE + grace:
            faults.append(f"took {seconds:.1f} s")
        for other in range(RANKS):
            if other == rank:
                continue
            lines = (self.path / f"said-{other}").read_text().splitlines()
            said = [line for line in lines if line.startswith(f"topknot: rank {other}:")]
            self.spoke += len(said)
            if not said:
                continue
            if len(said) > 1:
                faults.append(f"rank {other} printed {len(said)} lines: {said}")
            elif not re.match(rf"topknot: rank {other}: rank {rank} has (been silent|gone|left)", said[0]):
                faults.append(f"wrong blame: {said[0]}")
            elif not re.search(r"step \d+, phase \w+", said[0]):
                faults.append(f"no step and phase: {said[0]}")
            # The launcher may end the wrapper before it has written the code of a rank that ended last.
            if self.code(other) not in (75, None):
                faults.append(f"rank {other} ended with {self.code(other)}")
        if self.spoke == 0:
            faults.append("no rank printed a line")
        if self.launcher.reader:
            said = subprocess.run([self.launcher.reader, self.folder.name], capture_output=True, text=True, check=False)
            if f" lead to rank {rank}, which " not in said.stdout:
                faults.append(f"the dumps name another: {said.stdout.strip()}")
        if self.launcher.ended_wrong(self.number, self.job.returncode):
            faults.append(f"the launcher ended with {self.job.returncode}")
        return faults


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def figures(kind, number, runs):
    took = sorted(run["seconds"] for run in runs)
    late = sum(run["late"] for run in runs)
    print(f"{kind}, {number.name}: {len(took)} runs, {sum(s >= HUNG for s in took)} hung, until all others were gone: p50 "
          f"{statistics.median(took):.2f} s, p99 {took[int(0.99 * (len(took) - 1))]:.2f} s, most {took[-1]:.2f} s, {late} "
          f"late; {sum(run['unheard'] for run in runs)} of {len(took) * (RANKS - 1)} ranks were ended before they printed",
          flush=True)


def one_run(launcher, number, i, draw, grace):
    """What is kept of a run."""
    collective = launcher.collectives[i % len(launcher.collectives)]
    rank, pause = draw.randrange(RANKS), draw.uniform(0, 0.5)
    run = Run(launcher, collective, number)
    seconds = run.hurt(rank, pause)
    faults = run.broken(rank, seconds, grace)
    for fault in faults:
        print(f"{number.name} to rank {rank} after {pause:.3f} s of {collective}: {fault}", flush=True)
    return {"signal": number.name, "seconds": seconds, "unheard": RANKS - 1 - run.spoke, "faults": faults,
            "late": seconds > DEADLINE + grace}


def main():
    runs, grace, kind, *words = sys.argv[1:]
    launcher = {"mpirun": Mpirun, "torchrun": Torchrun}[kind](*words)
    if why := launcher.why_not():
        print(f"skipped: {why}")
        sys.exit(77)
    seed = int(os.environ.get("TOPKNOT_SEED", "1"))
    draw = random.Random(seed)
    record = Path(os.environ["KILLS_RECORD"]) if "KILLS_RECORD" in os.environ else None
    done = [json.loads(line) for line in record.read_text().splitlines()] if record and record.exists() else []
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for i in range(int(runs)):
            done.append(one_run(launcher, number, seed * int(runs) + i, draw, float(grace)))
            if record:
                with record.open("a") as file:
                    file.write(json.dumps(done[-1]) + "\n")
        figures(kind, number, [run for run in done if run["signal"] == number.name])
    failures = sum(len(run["faults"]) for run in done)
    print(f"promises broken: {failures}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
