# SPDX-License-Identifier: Apache-2.0
"""What the tests of `topknot train` share: the command of their command line, and a small job."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

COMMAND = sys.argv.pop(1)
TREE = Path(sys.argv.pop(1))
MPIRUN = sys.argv.pop(1).split() if len(sys.argv) > 1 else []
LAUNCHER_WORDS = ("OMPI_", "PMI", "PMIX", "SLURM", "PBS", "TOPKNOT_")
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHER_WORDS)}
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
RESULT_KEYS = ["job", "model", "data", "seed", "scheme", "exchange", "workers", "steps", "epochs",
               "seconds", "metric", "sent_bytes_per_step", "dense_bytes_per_step",
               "exposed_seconds_per_step", "skipped_steps", "weights_hash", "versions"]
EXCHANGE_KEYS = ["of", "memory", "compressor", "collective", "density_schedule", "density",
                 "local_steps", "density_achieved"]
STEP_KEYS = ["step", "epoch", "loss", "lr", "finite", "samples", "sent_bytes", "sent_messages",
             "k_wanted", "k_selected", "count", "seconds", "compute_seconds", "data_seconds",
             "forward_seconds", "backward_seconds", "optimizer_seconds", "agree_seconds",
             "select_seconds", "encode_seconds", "wait_seconds", "decode_seconds", "busy_seconds",
             "exposed_seconds", "overlap"]
SMALL = """
model = "mlp"
data = "generated:size=640"
epochs = 2
batch = 16
workers = 2
timeout = 30
"""


def run(*words, env=None, launcher=()):
    return subprocess.run([*launcher, COMMAND, "train", *map(str, words)],
                          env={**CLEAN, **(env or {})}, capture_output=True, text=True,
                          timeout=300, check=False)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


HAS_TORCH = "without torch" not in run("./no-such-job.toml").stderr


class Case(unittest.TestCase):
    def setUp(self):
        if not HAS_TORCH:
            self.skipTest("this command was built without torch")
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.out = self.folder / "out"
        self.job = self.folder / "small.toml"
        self.job.write_text(SMALL)

    def done(self, *words, code=0, **more):
        out = run(*words, **more)
        self.assertEqual(out.returncode, code, out.stdout + out.stderr)
        return out

    def refused(self, *words, said, code=2, **more):
        out = self.done(*words, code=code, **more)
        self.assertEqual(out.stdout, "")
        self.assertEqual(len(out.stderr.strip().splitlines()), 1, out.stderr)
        self.assertIn(said, out.stderr)
