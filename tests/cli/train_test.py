#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `topknot train` promises: sentences, exit codes, and what a run leaves in its folder.

    train_test.py COMMAND SOURCE-TREE [MPIRUN]

Runs a few steps of the quick start's model on generated images; on a command whose trainer
trains nothing it is over in seconds. Where there is no torch only that is checked.
"""

import json
import os
import re
import signal
import subprocess
import time
import unittest
from pathlib import Path

from train_case import (AS_ROOT, CLEAN, COMMAND, EXCHANGE_KEYS, HAS_TORCH, MPIRUN, RESULT_KEYS, SMALL,
                        STEP_KEYS, TREE, Case, lines, run)


class WithoutTorch(unittest.TestCase):
    @unittest.skipIf(HAS_TORCH, "there is torch")
    def test_says_so_in_one_sentence(self):
        out = run("quickstart")
        self.assertEqual(out.returncode, 2)
        self.assertEqual(len(out.stderr.splitlines()), 1, out.stderr)


class Lists(unittest.TestCase):
    def test_the_jobs_are_listed(self):
        out = run("--list")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertEqual(out.stdout, subprocess.run([COMMAND, "list", "jobs"], env=CLEAN, text=True,
                                                    capture_output=True, check=True).stdout)
        names = re.findall(r"^  (\S+)", out.stdout, re.MULTILINE)
        self.assertEqual(names, sorted(file.stem for file in (TREE / "jobs").glob("*.toml")))

    def test_the_page_has_every_key_as_the_command_says_it(self):
        said = run("--keys").stdout.splitlines()
        page = (TREE / "docs" / "train.md").read_text()
        self.assertGreater(len(said), 60)
        for first, second in zip(said[::2], said[1::2]):
            name, meaning = first.split(maxsplit=1)
            kind, default = second.strip().rsplit("; default ", 1)
            self.assertIn(f"| `{name}` | {kind} | {default} | {meaning} |", page)
        rows = re.findall(r"^\| `\w+` \| [^|]* \| [^|]* \| [^|]* \|$", page, re.MULTILINE)
        self.assertEqual(len(rows), len(said) // 2)


class BadInput(Case):
    def test_an_unknown_key_gets_the_nearest(self):
        self.job.write_text("epochs = 1\nbacth = 3\n")
        self.refused(self.job, said="small.toml:2: There is no key bacth in a job; nearest is batch")
        self.refused("quickstart", "--set", "bacth=3", said="nearest is batch")
        self.refused("quickstart", "--set", "epochs", said="key=value")
        self.refused("quickstart", said="TOPKNOT_LR", env={"TOPKNOT_LR": "fast"})

    def test_a_flag_and_a_setting_must_not_contradict_each_other(self):
        self.refused("quickstart", "--scheme", "dense", "--set", "scheme=knot",
                     said="--scheme dense and --set scheme=knot contradict each other")
        self.refused("quickstart", "--no-evaluate", "--set", "evaluate=true", said="contradict")
        self.done(self.job, "--seed", "4", "--set", "seed=4", "steps=1", "--quiet")

    def test_a_job_that_is_not_there_is_named(self):
        self.refused(self.folder / "none.toml", said="There is no file")
        self.refused("quikstart", said="nearest is quickstart")

    def test_what_writes_needs_a_folder(self):
        for flag in ("--resume", "--overwrite", "--trace", "--tensorboard"):
            self.refused(self.job, flag, said="needs --out")
        self.refused(self.job, "--out", self.out, "--resume", "--overwrite", said="give one")
        self.assertFalse(self.out.exists())

    def test_a_run_is_not_overwritten_unasked(self):
        self.done(self.job, "--set", "steps=3", "--out", self.out)
        before = (self.out / "steps.jsonl").read_text()
        self.refused(self.job, "--out", self.out, said="There is a run in")
        self.assertEqual((self.out / "steps.jsonl").read_text(), before)
        self.done(self.job, "--set", "steps=2", "--out", self.out, "--overwrite")
        self.assertEqual(len(lines(self.out / "steps.jsonl")), 2)

    def test_there_must_be_a_checkpoint_to_resume(self):
        self.refused(self.job, "--out", self.out, "--resume", said="no checkpoint", code=66)
        self.refused("--out", self.out, "--resume", said="no checkpoint", code=66)
        self.assertFalse(self.out.exists())
        self.out.mkdir()
        self.refused(self.job, "--out", self.out, "--resume", said="no checkpoint", code=66)
        self.assertEqual(list(self.out.iterdir()), [])

    def test_a_run_that_does_not_begin_leaves_no_folder(self):
        self.refused(self.job, "--set", "data=fashion-mnist", "folder=missing", "--out", self.out,
                     said="fashion-mnist is not in missing; ", code=65)
        self.assertFalse(self.out.exists())

    def test_missing_data_leave_the_run_that_was_to_be_overwritten(self):
        self.done(self.job, "--out", self.out)
        before = sorted((str(f), f.stat().st_size) for f in self.out.rglob("*") if f.is_file())
        self.refused(self.job, "--set", "data=fashion-mnist", "--data", "missing", "--out",
                     self.out, "--overwrite", said="fashion-mnist is not in missing; ", code=65)
        after = sorted((str(f), f.stat().st_size) for f in self.out.rglob("*") if f.is_file())
        self.assertEqual(after, before)


class Results(Case):
    def test_json_is_one_line_and_all_of_the_output(self):
        out = self.done(self.job, "--set", "steps=5", "--json")
        self.assertEqual(len(out.stdout.splitlines()), 1)
        said = json.loads(out.stdout)
        self.assertEqual(list(said), RESULT_KEYS)
        self.assertEqual((said["job"], said["workers"], said["steps"]), ("small", 2, 5))
        self.assertRegex(said["weights_hash"], "^[0-9a-f]{16}$")

    def test_a_flag_beats_the_environment_and_that_the_file(self):
        environment = {"TOPKNOT_BATCH": "8", "TOPKNOT_SEED": "5", "TOPKNOT_DATA": "/nowhere"}
        self.done(self.job, "--set", "steps=1", "seed=6", "--out", self.out, env=environment)
        job = json.loads((self.out / "run.json").read_text())["job"]
        self.assertEqual((job["batch"], job["seed"], job["epochs"]), (8, 6, 2))
        self.assertEqual(job["data"], "generated:size=640")

    def test_everyday_keys_have_flags(self):
        words = {"epochs": "1", "steps": "3", "lr": "0.02", "batch": "8", "seed": "9", "model": "cnn",
                 "optimizer": "sgd", "compressor": "dgc", "collective": "topka", "memory": "residual",
                 "density": "0.5", "workers": "3"}
        self.done(self.job, *(f"--{key}={value}" for key, value in words.items()), "--no-evaluate",
                  "--out", self.out)
        job = json.loads((self.out / "run.json").read_text())["job"]
        self.assertEqual({key: str(job[key]) for key in words}, words)
        self.assertIs(job["evaluate"], False)

    def test_quiet_leaves_the_summary_alone(self):
        out = self.done(self.job, "--steps", "2", "--quiet")
        self.assertEqual(out.stderr, "")
        self.assertIn("weights", out.stdout)

    def test_every_step_and_epoch_has_its_line(self):
        self.done(self.job, "--out", self.out)
        steps = lines(self.out / "steps.jsonl")
        self.assertEqual([one["step"] for one in steps], list(range(len(steps))))
        for one in steps:
            self.assertEqual(list(one), STEP_KEYS)
        epochs = lines(self.out / "epochs.jsonl")
        self.assertEqual([one["epoch"] for one in epochs], [0, 1])
        self.assertEqual(epochs[-1]["step"], len(steps))
        self.assertEqual(list(epochs[0]), ["epoch", "step", "lr", "train_loss", "test_loss",
                                           "metric", "seconds", "evaluation_seconds"])
        self.assertEqual(list(json.loads((self.out / "result.json").read_text())), RESULT_KEYS)

    def test_the_trace_has_all_ranks_and_tensorboard_a_file(self):
        self.done(self.job, "--set", "steps=4", "--out", self.out, "--trace", "--tensorboard")
        events = json.loads((self.out / "trace.json").read_text())["traceEvents"]
        for rank in (0, 1):
            spans = [one for one in events if one["ph"] == "X" and one["pid"] == rank]
            self.assertEqual({one["args"]["step"] for one in spans}, {0, 1, 2, 3})
            names = {one["name"] for one in spans}
            for name in ("data", "forward", "backward", "exposed exchange", "bucket 0", "select",
                         f"wait for rank {1 - rank}"):
                self.assertIn(name, names)
        self.assertEqual(len(list(self.out.glob("events.out.tfevents.*"))), 1)

    def test_the_traffic_of_all_ranks_is_left_and_said(self):
        out = self.done(self.job, "--workers", "3", "--set", "local_steps=1", "--out", self.out)
        said = json.loads((self.out / "traffic.json").read_text())
        self.assertEqual(list(said), ["steps", "bytes", "messages", "wait_seconds"])
        self.assertEqual(said["steps"], len(lines(self.out / "steps.jsonl")))
        for name in ("bytes", "messages", "wait_seconds"):
            self.assertEqual([len(row) for row in said[name]], [3, 3, 3])
            self.assertTrue(all(said[name][rank][rank] == 0 for rank in range(3)), said)
        self.assertRegex(out.stdout, r"(?m)^  balance +rank \d sent most")
        self.assertRegex(out.stdout, r"(?m)^  waits +rank \d waited longest, most of it for rank \d")

    def test_what_takes_time_is_recorded_where_it_is_asked_for(self):
        self.done(self.job, "--set", "steps=3", "local_steps=1", "--density", "0.1", "--out", self.out,
                  "--analyze")
        for one in lines(self.out / "steps.jsonl"):
            self.assertGreater(one["threshold"], 0)
            self.assertGreater(one["residual_norm"], 0)

    @unittest.skipUnless(HAS_TORCH and "fake" not in COMMAND, "the fake trainer decides nothing")
    def test_what_was_decided_is_said_and_written(self):
        out = self.done(self.job, "--out", self.out, "--budget", "0.025")
        self.assertIn("knot: residual + topk + knot:values=i2 at density 0.25 every 3 steps", out.stderr)
        run_json = json.loads((self.out / "run.json").read_text())
        self.assertEqual(run_json["job"]["budget"], 0.025)
        self.assertEqual(run_json["job"]["local_steps"], 0)
        self.assertEqual(run_json["job_as_run"]["local_steps"], 3)
        self.assertEqual(run_json["job_as_run"]["density"], 0.25)
        self.assertEqual(run_json["job_as_run"]["exchange"], "updates")

    def test_a_budget_beside_a_density_is_refused(self):
        out = run(self.job, "--budget", "0.02", "--density", "0.01")
        self.assertEqual(out.returncode, 2)
        self.assertEqual(out.stderr, "topknot: A budget decides the density: set one or the "
                                     "other.\n")

    def test_what_ran_is_what_is_written(self):
        words = (self.job, "--set", "collective=gtopk", "compressor=gaussiank", "density=0.02",
                 "steps=6", "seed=3")
        out = self.done(*words, "--out", self.out, "--tensorboard")
        parts = "momentum:momentum=0.9 + gaussiank + gtopk"
        self.assertIn(f"{parts} at density 0.02", out.stderr)
        self.assertIn(f"{parts} at density 0.02", out.stdout)
        self.assertIn("seed 3", out.stderr.splitlines()[0])
        self.assertRegex(out.stdout, r"(?m)^  versions +topknot \S+ \(.*\), torch .")
        (events,) = self.out.glob("events.out.tfevents.*")
        self.assertIn(f"{parts} at density 0.02".encode(), events.read_bytes())
        for name in ("run.json", "result.json"):
            said = json.loads((self.out / name).read_text())
            self.assertEqual(said["scheme"], parts, name)
            exchange = said["exchange"]
            self.assertEqual((exchange["memory"], exchange["compressor"], exchange["collective"],
                              exchange["density"]), ("momentum:momentum=0.9", "gaussiank", "gtopk", 0.02))
            self.assertLessEqual({"topknot", "commit", "torch", "compiler"}, set(said["versions"]))
        self.assertEqual(list(exchange), EXCHANGE_KEYS)
        self.assertEqual((said["model"], said["data"], said["seed"]), ("mlp", "generated:size=640", 3))
        if Path(COMMAND).name != "topknot_fake":  # which exchanges nothing
            self.assertAlmostEqual(exchange["density_achieved"], 0.02, delta=0.01)

    def test_a_scheme_takes_parameters(self):
        said = json.loads(self.done(self.job, "--scheme", "knot:values=bf16", "--density", "0.1",
                                    "--steps", "2", "--json").stdout)
        self.assertEqual((said["scheme"], said["exchange"]["collective"]),
                         ("knot:values=bf16", "knot:values=bf16"))
        self.refused(self.job, "--scheme", "knot:valeus=bf16", said="nearest is values")

    def test_a_dry_run_says_what_would_be_run(self):
        out = self.done(self.job, "--scheme", "oktopk", "--density", "0.05", "--dry-run", "--out",
                        self.out)
        self.assertFalse(self.out.exists())
        for part in ("scheme             oktopk", "residual + reuse + oktopk at density 0.05",
                     "parameters", "buckets", "bytes", "memory"):
            self.assertIn(part, out.stdout)
        said = json.loads(self.done(self.job, "--dry-run", "--json", "--density", "0.01").stdout)
        self.assertGreater(said["parameters"], 0)
        self.assertGreater(said["worker_bytes"], 12 * said["parameters"])
        self.assertLess(0, said["expected_bytes_per_step"])
        self.assertLess(said["expected_bytes_per_step"], said["dense_bytes_per_step"] / 2)
        self.assertEqual(sum(b["coordinates"] for b in said["buckets"]), said["parameters"])

    @unittest.skipIf("fake" in COMMAND, "the fake trainer sends nothing")
    def test_a_dry_run_expects_about_the_bytes_that_are_sent(self):
        words = (self.job, "--scheme", "topka", "--density", "0.01", "--json")
        expected = json.loads(self.done(*words, "--dry-run").stdout)["expected_bytes_per_step"]
        sent = json.loads(self.done(*words).stdout)["sent_bytes_per_step"]
        self.assertAlmostEqual(expected / sent, 1, delta=0.2)

    def test_evaluation_can_be_left_out_or_cut_short(self):
        said = json.loads(self.done(self.job, "--epochs", "1", "--no-evaluate", "--json").stdout)
        if Path(COMMAND).name != "topknot_fake":
            self.assertIsNone(said["metric"])
            out = self.done(self.job, "--epochs", "1", "--set", "evaluate_samples=7")
            self.assertIn(" on 7 test samples", out.stdout)
        self.refused(self.job, "--no-evaluate", "--set", "lr_schedule=plateau",
                     said="cannot be without evaluation")

    def test_only_errors_are_mixed_with_the_summary_of_a_person(self):
        out = self.done(self.job, "--set", "steps=2")
        for word in ("time", "sent", "exchange", "memory", "weights"):
            self.assertRegex(out.stdout, rf"(?m)^  {word} ")


if Path(COMMAND).name == "topknot_fake":  # the trainer that can be made to die

    class RefusedInstructions(Case):
        def test_a_run_that_dies_of_one_says_what_to_set(self):
            out = run(self.job, "--workers", "4", env={"FAKE_SIGILL": "1"})
            self.assertEqual(out.returncode, -signal.SIGILL, out.stdout + out.stderr)
            said = [line for line in out.stderr.splitlines() if "instruction" in line]
            self.assertEqual(len(said), 1, out.stderr)
            self.assertIn("set ONEDNN_MAX_CPU_ISA=AVX2", said[0])


class Recording(Case):
    def setUp(self):
        super().setUp()
        self.file = self.folder / "g.safetensors"

    def test_bad_lists_are_refused_before_anything_is_done(self):
        for bad in ("x", "1,,2", "3-1", "1-", "-1", "1 2", "0-999999999", "1,"):
            self.refused(self.job, "--record-gradients", self.file, f"--record-steps={bad}",
                         said="0,10,100-103 would be one")
        self.refused(self.job, "--record-steps", "1", said="--record-steps needs --record-grad")
        self.refused(self.job, "--record-ranks", "1", said="--record-ranks needs --record-grad")

    def test_a_file_is_not_written_over(self):
        self.file.write_text("mine")
        self.refused(self.job, "--record-gradients", self.file, said="There is already something")
        self.assertEqual(self.file.read_text(), "mine")
        self.refused(self.job, "--record-gradients", self.folder / "none" / "g", said="refused",
                     code=74)

    def recorded(self, *words, **more):
        """What `bench` finds in the file of a run, the run's result, and the file's bytes."""
        if Path(COMMAND).name == "topknot_fake":
            self.skipTest("this trainer has no gradients")
        said = self.done(self.job, "--set", "steps=5", "--json", "--record-gradients", self.file,
                         *words, **more)
        self.assertIn("are in", said.stderr)
        bench = subprocess.run([COMMAND, "bench", "select", "--gradients", str(self.file), "--json",
                                "--steps", "1", "--compressor", "topk"], env=CLEAN,
                               capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(bench.returncode, 0, bench.stderr)
        content = self.file.read_bytes()
        self.file.unlink()
        return json.loads(bench.stdout), json.loads(said.stdout), content

    def test_what_train_records_bench_selects_from(self):
        bench, _, _ = self.recorded()
        self.assertEqual(bench["gradients"]["model"], "mlp")
        self.assertEqual(bench["gradients"]["steps"], [0, 2, 4])
        self.assertEqual(bench["gradients"]["ranks"], [0, 1])
        bench, _, _ = self.recorded("--record-steps", "1-2,4", "--record-ranks", "1")
        self.assertEqual(bench["gradients"]["steps"], [1, 2, 4])
        self.assertEqual(bench["gradients"]["ranks"], [1])

    @unittest.skipUnless(MPIRUN, "built without MPI")
    def test_threads_and_processes_record_the_same_bytes(self):
        _, threads, one = self.recorded()
        _, processes, other = self.recorded(env=AS_ROOT, launcher=[*MPIRUN, "-n", "2"])
        self.assertEqual(threads["weights_hash"], processes["weights_hash"])
        self.assertEqual(one, other)


class Signals(Case):
    def leave(self, number, launcher=(), env=None):
        """Starts a long run, lets it take a few steps, and asks it to stop."""
        process = subprocess.Popen(
            [*launcher, COMMAND, "train", str(self.job), "--set", "epochs=100000", "--out",
             str(self.out)], env={**CLEAN, "FAKE_STEP_MS": "5", **(env or {})},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        steps = self.out / "steps.jsonl"
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            if steps.exists() and steps.read_text().count("\n") >= 5:
                break
            time.sleep(0.05)
        process.send_signal(number)
        said = process.communicate(timeout=120)[1]
        self.assertIn(f"`topknot train --resume --out {self.out}` continues it", said)
        return process.returncode

    def resumed(self):
        left = len(lines(self.out / "steps.jsonl"))
        self.assertFalse((self.out / "result.json").exists())
        # What a run that was killed later would have left: steps beyond the checkpoint.
        with (self.out / "steps.jsonl").open("a") as file:
            file.write(json.dumps({"step": left, "killed": True}) + "\n" + '{"step":')
        out = self.done("--steps", left + 3, "--out", self.out, "--resume", "--json")
        self.assertEqual(json.loads(out.stdout)["steps"], left + 3)
        steps = lines(self.out / "steps.jsonl")
        self.assertEqual([one["step"] for one in steps], list(range(left + 3)))
        self.assertFalse(any("killed" in one for one in steps))
        told = json.loads((self.out / "run.json").read_text())["resumed"]
        self.assertEqual([one["step"] for one in told], [left])

    def test_usr1_saves_and_ends_with_85_and_resume_continues(self):
        self.assertEqual(self.leave(signal.SIGUSR1), 85)
        self.resumed()

    def test_so_do_term_and_int(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            self.assertEqual(self.leave(number), 85)
            subprocess.run(["rm", "-r", str(self.out)], check=True)

    @unittest.skipUnless(MPIRUN, "built without MPI")
    def test_usr1_to_mpirun_reaches_all_ranks(self):
        self.assertEqual(self.leave(signal.SIGUSR1, [*MPIRUN, "-n", "2"], AS_ROOT), 85)
        self.resumed()


class NotFinite(Case):
    """A learning rate at which only the first step is finite."""

    def ended(self, *words, said, launcher=(), env=None):
        out = self.done(self.job, "--set", "lr=1e38", "steps=20", "local_steps=1", *words, code=76,
                        launcher=launcher, env=env)
        self.assertEqual(out.stderr.count(said), 1, out.stderr)
        return out

    def test_a_step_that_is_not_ends_the_run_with_76(self):
        self.ended("--out", self.out, said="topknot: Step 1")
        self.assertEqual(len(lines(self.out / "steps.jsonl")), 2)
        self.assertEqual(json.loads((self.out / "result.json").read_text())["skipped_steps"], 1)
        self.assertEqual(list((self.out / "checkpoints").glob("step-*")), [])

    def test_so_do_too_many_that_were_skipped(self):
        out = self.ended("--nonfinite", "skip", "--set", "skip_limit=0.5", "--json", said="topknot: 11 ")
        self.assertEqual(json.loads(out.stdout)["steps"], 12)
        self.refused(self.job, "--nonfinite", "maybe", said="it is abort or skip")

    @unittest.skipUnless(MPIRUN, "built without MPI")
    def test_one_rank_says_so_under_mpirun(self):
        self.ended(said="topknot: Step 1", launcher=[*MPIRUN, "-n", "3"], env=AS_ROOT)


@unittest.skipUnless("FLIPPING_COMMAND" in os.environ, "this trainer has no weights")
class Drift(Case):
    def drifted(self, *words, launcher=(), env=None):
        out = subprocess.run(
            [*launcher, os.environ["FLIPPING_COMMAND"], "train", str(self.job), *map(str, words)],
            env={**CLEAN, "FLIP": "1 7", **(env or {})}, capture_output=True, text=True,
            timeout=300, check=False)
        self.assertEqual(out.returncode, 70, out.stdout + out.stderr)
        said = [line for line in out.stderr.splitlines() if line.startswith("topknot: ")]
        self.assertEqual(len(said), 2, out.stderr)
        self.assertIn("After 10 steps the ranks no longer have the same; after 5 they had", said[0])
        self.assertRegex(said[1], r"rank 1 has hash of the weights first\.weight = [0-9a-f]{16}, "
                                  r"ranks 0 and 2 have [0-9a-f]{16}\.$")

    def test_is_said_once_and_ends_with_70(self):
        self.drifted("--workers", "3", "--set", "check_every=5", "local_steps=1", "--out", self.out)
        self.assertFalse((self.out / "result.json").exists())

    @unittest.skipUnless(MPIRUN, "built without MPI")
    def test_under_mpirun_too(self):
        self.drifted("--set", "check_every=5", "local_steps=1", launcher=[*MPIRUN, "-n", "3"], env=AS_ROOT)


@unittest.skipUnless(MPIRUN, "built without MPI")
class StartedUnlike(Case):
    """Ranks that mpirun gave other words, each in a process of its own."""

    def two(self, first, second, code=64):
        words = [*MPIRUN, "-n", "1", COMMAND, "train", str(self.job), *map(str, first),
                 ":", "-n", "1", COMMAND, "train", str(self.job), *map(str, second)]
        out = subprocess.run(words, env={**CLEAN, **AS_ROOT}, capture_output=True, text=True,
                             timeout=100, check=False)
        self.assertEqual(out.returncode, code, out.stdout + out.stderr)
        return [line[len("topknot: "):] for line in out.stderr.splitlines()
                if line.startswith("topknot: ")]

    def test_keys_are_refused_field_by_field_and_once(self):
        self.assertEqual(self.two(["--set", "lr=0.01"], ["--set", "lr=0.5", "seed=9"]),
                         ["rank 1 has seed = 9, rank 0 has 1.",
                          "rank 1 has lr = 0.5, rank 0 has 0.01."])

    def test_every_key_is_compared_but_those_that_may_differ(self):
        said = run("--keys").stdout.splitlines()
        other = []
        for first, second in zip(said[::2], said[1::2]):
            name, default = first.split()[0], second.rsplit("; default ", 1)[1]
            given = re.search(rf'^{name} = "?([^"\n]*)', SMALL, re.MULTILINE)
            now = given.group(1) if given else default
            kind = second.strip()
            values = (["true", "false"] if kind.startswith("true") else ["0.5", "0.25"]
                      if kind.startswith("a number") else ["1", "2"]
                      if kind.startswith("a whole") else ["another"])
            other.append((name, next(value for value in values if value != now)))
        # The launcher's number of ranks is what counts.
        other = [(name, value) for name, value in other if name != "workers"]
        told = self.two([], ["--set", *(f"{name}={value}" for name, value in other)])
        named = [re.match(r"rank 1 has (\S+) = (.*), rank 0 has .*\.$", line).groups()
                 for line in told]
        self.assertEqual(named, [one for one in other if one[0] not in ("folder", "threads")])

    def test_so_are_the_flags_that_ranks_must_share(self):
        self.assertEqual(self.two([], ["--out", self.out]),
                         ["rank 1 has --out = (given), rank 0 has (not given)."])
        self.assertEqual(self.two(["--out", self.out, "--trace"], ["--out", self.out]),
                         ["rank 1 has --trace = (not given), rank 0 has (given)."])
        self.assertEqual(
            self.two(["--record-gradients", self.folder / "a", "--record-steps", "1"],
                     ["--record-gradients", self.folder / "b", "--record-steps", "2"]),
            ["rank 1 has --record-steps = 2, rank 0 has 1."])
        self.assertFalse(self.out.exists())

    def test_what_may_differ_does(self):
        self.two(["--set", "steps=2"],
                 ["--set", "steps=2", "threads=2", "folder=/elsewhere", "--json"], code=0)


@unittest.skipUnless(MPIRUN, "built without MPI")
class UnderMpirun(Case):
    def test_the_launchers_ranks_are_the_workers_whatever_the_file_says(self):
        out = self.done(self.job, "--set", "steps=2", "--json", "--trace", "--out", self.out,
                        env=AS_ROOT, launcher=[*MPIRUN, "-n", "3"])
        self.assertEqual(json.loads(out.stdout)["workers"], 3)
        told = json.loads((self.out / "run.json").read_text())
        self.assertEqual((told["launch"], told["workers"]), ("mpi", 3))
        events = json.loads((self.out / "trace.json").read_text())["traceEvents"]
        self.assertEqual({one["pid"] for one in events}, {0, 1, 2})

    def test_threads_and_processes_give_the_same_bits(self):
        for scheme in ("dense", "oktopk", "knot", "exdyna", "adtopk"):
            words = (self.job, "--scheme", scheme, "--set", "model=cnn", "--set", "steps=20",
                     "--set", "density_schedule=constant", "--set", "epochs=100", "--set", "bucket_mb=0.2",
                     "--set", "lr=0.02", "--json")
            threads = json.loads(self.done(*words, "--workers", "4").stdout)
            processes = json.loads(self.done(*words, env=AS_ROOT,
                                             launcher=[*MPIRUN, "-n", "4"]).stdout)
            self.assertEqual(threads["weights_hash"], processes["weights_hash"], scheme)
            self.assertEqual(threads["metric"], processes["metric"], scheme)

    def test_another_number_of_workers_is_refused(self):
        for words in (("--workers", "3"), ("--set", "workers=3")):
            out = run(self.job, *words, env=AS_ROOT, launcher=[*MPIRUN, "-n", "2"])
            self.assertEqual(out.returncode, 2, out.stderr)
            self.assertIn("--workers 3 cannot be", out.stderr)

    def test_only_rank_0_complains_of_the_folder(self):
        self.done(self.job, "--set", "steps=1", "--out", self.out)
        out = run(self.job, "--out", self.out, env=AS_ROOT, launcher=[*MPIRUN, "-n", "3"])
        self.assertEqual(out.returncode, 2, out.stderr)
        self.assertEqual(out.stderr.count("There is a run in"), 1, out.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # with the reasons of what is skipped
