#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much of a run's work counts when its ranks keep dying.

    goodput.py COMMAND EVERY KILLS WORKERS MPIRUN [MPIRUN-ARGUMENTS] [-- TRAIN-FLAGS]

Trains the quick start on generated data under `train --restarts`, and kills a rank, drawn at random, EVERY
seconds after the last restart, KILLS times; then asks the run to save and stop. Prints

- useful steps / all steps: those that the run kept, of those it took. The others came after a checkpoint and were
  taken again;
- seconds from a kill to the first new step: the launcher's end, the start of the ranks, data and checkpoint included.

Exits 1 where the run does not go on after a kill, where a step is missing or there twice, or where something is left
running.
"""

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PATIENCE = 300.0
MARK = f"goodput-{os.getpid()}"
ENV = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "GOODPUT_RUN": MARK}
JOB = ("--set", "model=mlp", "data=generated:size=100000", "batch=16", "epochs=1000000", "evaluate=false",
       "checkpoint_every=100", "timeout=10")


def ranks():
    """The processes of the run's ranks."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"GOODPUT_RUN={MARK}".encode() in words and any(w.startswith(b"OMPI_COMM_WORLD_RANK=") for w in words):
            found.append(int(process.name))
    return sorted(found)


class Run:
    def __init__(self, command, kills, workers, mpirun, flags):
        self.folder = tempfile.TemporaryDirectory()
        self.out = Path(self.folder.name) / "out"
        self.process = subprocess.Popen(
            [command, "train", *JOB, *flags, "--quiet", "--out", self.out, "--workers", workers, "--restarts", str(kills),
             "--launcher", subprocess.list2cmdline(mpirun)], env=ENV, stdout=subprocess.DEVNULL)

    def steps(self):
        """Of all lines that are whole."""
        path = self.out / "steps.jsonl"
        return [json.loads(line)["step"] for line in path.read_text().split("\n")[:-1]] if path.exists() else []

    def resumes(self):
        path = self.out / "run.json"
        return json.loads(path.read_text()).get("resumed", []) if path.exists() else []

    def wait_until(self, what, ready):
        end = time.monotonic() + PATIENCE
        while not ready():
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError(f"{what}: not within {PATIENCE:.0f} s, or the run has ended")
            time.sleep(0.02)

    def kill_one(self, draw):
        """Returns the steps that have to be taken again, and the seconds to the first new one."""
        resumes = len(self.resumes())
        victim = draw.choice(ranks())
        os.kill(victim, signal.SIGKILL)
        begin = time.monotonic()
        taken = len(self.steps())
        self.wait_until("a restart", lambda: len(self.resumes()) > resumes)
        resumed = self.resumes()[-1]["step"]
        self.wait_until("a new step", lambda: len(self.steps()) > resumed)
        return max(taken - resumed, 0), time.monotonic() - begin

    def stop(self):
        self.process.send_signal(signal.SIGUSR1)
        return self.process.wait(PATIENCE)


def main():
    words = sys.argv[1:]
    flags = words[words.index("--") + 1:] if "--" in words else []
    command, every, kills, workers, *mpirun = words[:words.index("--")] if "--" in words else words
    draw = random.Random(int(os.environ.get("TOPKNOT_SEED", "1")))
    run = Run(command, int(kills), workers, mpirun, flags)
    lost, seconds = [], []
    try:
        run.wait_until("the first checkpoint",
                       lambda: list(run.out.glob("checkpoints/step-*[0-9]/manifest")) and run.steps())
        for _ in range(int(kills)):
            time.sleep(float(every))
            again, took = run.kill_one(draw)
            lost.append(again)
            seconds.append(took)
            print(f"killed a rank: {again} steps again, {took:.1f} s to the first new step", flush=True)
        code = run.stop()
    finally:
        run.process.kill()
        run.process.wait()
    steps = run.steps()
    faults = [] if code == 85 else [f"the run ended with {code}"]
    if steps != list(range(len(steps))):
        faults.append("a step is missing or there twice")
    if left := ranks():
        faults.append(f"processes {left} are left")
    useful = len(steps)
    print(f"{kills} kills, one every {every} s, of {workers} ranks: {useful} useful steps of {useful + sum(lost)} "
          f"({useful / max(useful + sum(lost), 1):.3f}); from kill to first new step p50 {statistics.median(seconds):.1f} s, "
          f"most {max(seconds):.1f} s")
    for fault in faults:
        print(f"broken: {fault}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
