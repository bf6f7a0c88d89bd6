#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does sparse training give a model as good as dense training, in every domain?

    bench/convergence.py --data DIR                       # makes the runs that are missing
    bench/convergence.py --data DIR --only 'ncf/knot*'    # of these
    bench/convergence.py --list                           # what is done, what is to do
    bench/convergence.py --tables --write                 # into docs/accuracy.md
    bench/convergence.py --plots                          # into docs/pictures/; needs matplotlib

Trains the jobs of convergence_runs.py with every variant, four workers as threads, the same
samples in the same order. A finished run leaves a small JSON in bench/results/convergence/, which is kept
in the tree; it is made again only when its settings change. A run that was interrupted is resumed
where its folder in --runs is still there. TERM or Ctrl-C saves the run at hand and ends with
85. Several of these can work on one table at a time. DIR has the real sets, as `topknot
data` prepares them.
"""

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import convergence_report
from convergence_records import Records, record_of
from convergence_runs import JOBS, Run, plan

ROOT = pathlib.Path(__file__).resolve().parents[1]
NO_DATA, NO_CHECKPOINT, NOT_FINITE, LEFT = 65, 66, 76, 85  # exit codes of topknot
# These would make the command part of somebody else's run, or set keys of the job.
NOT_INHERITED = ("OMPI_", "PMI", "PMIX", "SLURM", "TOPKNOT_")


def say(*words) -> None:
    print(f"convergence: {time.strftime('%H:%M:%S')}", *words, file=sys.stderr, flush=True)


class Runner:
    def __init__(self, args, records: Records):
        self.args = args
        self.records = records
        program = shutil.which(args.topknot)
        if program is None:
            raise SystemExit(f"convergence: there is no program {args.topknot}: build it by "
                             "./run build, or name one by --topknot.")
        self.program = str(pathlib.Path(program).resolve())
        self.program_hash = hashlib.sha256(pathlib.Path(program).read_bytes()).hexdigest()[:16]
        self.ends = time.monotonic() + 60 * args.minutes if args.minutes else None
        self.failed: dict[str, str] = {}
        self.passed_over: set[str] = set()
        self.asked_to_leave = False
        self.child = None

    # ---- one run

    def make(self, run: Run) -> None:
        self.args.runs.joinpath(run.job).mkdir(parents=True, exist_ok=True)
        with open(self.args.runs / f"{run.name}.lock", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(run.name, "is being made by another process")
                self.passed_over.add(run.name)
                return
            if self.records.find(run) is None:
                self.make_locked(run)

    def make_locked(self, run: Run) -> None:
        go_on = self.can_go_on(run)
        if go_on and (self.args.runs / run.name / "result.json").exists():
            self.keep(run)
            return
        say(run.name, "resumes" if go_on else "...")
        code = self.train(run, go_on)
        if code == NO_CHECKPOINT and go_on:
            code = self.train(run, False)
        if code in (0, NOT_FINITE):
            self.keep(run)
        elif self.leaving():
            say(run.name, "is interrupted; the next start resumes it")
        else:
            self.report_failure(run, code)

    def can_go_on(self, run: Run) -> bool:
        folder = self.args.runs / run.name
        with contextlib.suppress(OSError, ValueError):
            return (json.loads(self.note(run).read_text()) == self.identity(run)
                    and any((folder / "checkpoints").iterdir()))
        return False

    def note(self, run: Run) -> pathlib.Path:
        return self.args.runs / f"{run.name}.settings"

    def identity(self, run: Run) -> dict:
        return {"settings": run.settings(), "program": self.program_hash}

    def train(self, run: Run, go_on: bool) -> int:
        folder = self.args.runs / run.name
        if not go_on:
            shutil.rmtree(folder, ignore_errors=True)
            self.note(run).write_text(json.dumps(self.identity(run)))
        command = [self.program, "train", JOBS[run.job].name, "--out", folder]
        command += ["--resume"] if go_on else []
        command += [*self.data_of(run), "--set", *run.settings()]
        env = {k: v for k, v in os.environ.items() if not k.startswith(NOT_INHERITED)}
        with open(f"{folder}.log", "a" if go_on else "w") as log:
            # A session of its own: Ctrl-C is for this program, which then asks the run to stop.
            self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                          env=env, start_new_session=True)
        if self.asked_to_leave:
            self.child.send_signal(signal.SIGUSR1)
        try:
            self.child.wait(self.ends and max(0, self.ends - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.child.send_signal(signal.SIGUSR1)
        return self.child.wait()

    def data_of(self, run: Run) -> list:
        # Without --data the command looks where the system's packages have it.
        packaged = run.job == "quickstart" and not (self.args.data / "fashion-mnist").exists()
        return [] if packaged else ["--data", self.args.data]

    def keep(self, run: Run) -> None:
        folder = self.args.runs / run.name
        record = record_of(run, folder)
        self.records.write(run, record)
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        metric = record["metric"]
        outcome = f"{metric['name']} {metric['value']}" if metric["name"] else "did not stay finite"
        say(f"{run.name}: {outcome}, {record['bytes_per_step']} bytes a step, "
            f"{record['seconds']} s")

    def report_failure(self, run: Run, code: int) -> None:
        log = pathlib.Path(f"{self.args.runs / run.name}.log")
        last = log.read_text(errors="replace").splitlines()[-5:]
        self.failed[run.name] = f"{run.name} ended with {code}; its log is {log}"
        say(self.failed[run.name] + "".join(f"\n    {line}" for line in last))
        if code == NO_DATA:
            say(f"all other runs of {run.job} are passed over: its data are missing or broken")
            self.passed_over.add(run.job)

    # ---- all of them

    def leaving(self) -> bool:
        return self.asked_to_leave or (self.ends is not None and time.monotonic() >= self.ends)

    def leave(self, *_) -> None:
        self.asked_to_leave = True
        if self.child is not None and self.child.poll() is None:
            self.child.send_signal(signal.SIGUSR1)

    def next_run(self) -> Run | None:
        failed = frozenset(self.failed)
        for run in plan(lambda *which: self.records.best_rate(*which, failed)):
            if (isinstance(run, Run) and run.matches(self.args.only)
                    and run.name not in failed
                    and not self.passed_over & {run.job, run.name}
                    and self.records.find(run) is None):
                return run
        return None

    def make_all(self) -> int:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.leave)
        while not self.leaving() and (run := self.next_run()) is not None:
            self.make(run)
        for text in self.failed.values():
            say("failed:", text)
        if self.failed:
            return 1
        return LEFT if self.asked_to_leave else 0


def show_list(args, records: Records) -> None:
    """Every run with its result; at the end how long the rest will take."""
    took: dict[str, list[float]] = {}
    to_do: list[str] = []
    for run in plan(records.best_rate):
        if isinstance(run, str):
            if not args.only:
                print(f"{run:45} waits for the best rates of dense and knot")
            continue
        if not run.matches(args.only):
            continue
        record = records.find(run)
        if record is None:
            to_do.append(run.job)
            print(f"{run.name:45} to do")
            continue
        took.setdefault(run.job, []).append(record["seconds"] or 0)
        print(f"{run.name:45} {record['metric']['name']} {record['metric']['value']}")
    seconds = sum(
        sum(took[job]) / len(took[job]) if job in took else JOBS[job].seconds for job in to_do)
    print(f"{len(to_do)} runs to do, about {seconds / 60:.0f} minutes")


def parse(words=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    path = pathlib.Path
    parser.add_argument("--data", type=path, help="folder of the data sets")
    parser.add_argument("--topknot", default=str(ROOT / "build" / "release" / "topknot"))
    parser.add_argument("--runs", type=path, default=path(tempfile.gettempdir(), "convergence"),
                        help="where the runs themselves are (default %(default)s)")
    parser.add_argument("--results", type=path, default=ROOT / "bench" / "results" / "convergence",
                        help="where their JSONs are")
    parser.add_argument("--only", nargs="+", default=[], metavar="PATTERN",
                        help="runs whose name, JOB/VARIANT-lrX-seedS, has this or is like it")
    parser.add_argument("--minutes", type=float, help="stop after so many; the run at hand is saved")
    parser.add_argument("--list", action="store_true", help="only list the runs")
    parser.add_argument("--tables", action="store_true", help="only print the tables")
    parser.add_argument("--write", action="store_true", help="with --tables: into --page")
    parser.add_argument("--page", type=path, default=ROOT / "docs" / "accuracy.md")
    parser.add_argument("--plots", action="store_true", help="only draw, one SVG for each job")
    parser.add_argument("--pictures", type=path, default=ROOT / "docs" / "pictures")
    args = parser.parse_args(words)
    if args.data is None and not (args.list or args.tables or args.plots):
        parser.error("--data is missing: the folder of the data sets.")
    if args.write and not args.tables:
        parser.error("--write goes with --tables.")
    return args


def main() -> int:
    args = parse()
    records = Records(args.results)
    if args.list:
        show_list(args, records)
    if args.tables and args.write:
        convergence_report.write_tables(records, args.page)
    elif args.tables:
        convergence_report.print_tables(records)
    if args.plots:
        convergence_report.draw(records, args.pictures)
    if args.list or args.tables or args.plots:
        return 0
    return Runner(args, records).make_all()


if __name__ == "__main__":
    sys.exit(main())
