#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `topknot train` promises for the jobs of every domain, on small data.

    domains_test.py COMMAND [MPIRUN]

Each small job, dropout included, gives the same bits on threads and under mpirun, and when
it is stopped and resumed; and a data set with one thing wrong in it gets one sentence and 65.
"""

import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

COMMAND = sys.argv.pop(1)
MPIRUN = sys.argv.pop(1).split() if len(sys.argv) > 1 else []
LAUNCHER_WORDS = ("OMPI_", "PMI", "PMIX", "SLURM", "PBS", "TOPKNOT_")
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHER_WORDS)}
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# The small jobs, smaller: all have dropout.
SMALL = {
    "lstm-wikitext2-small": ("model=lstm:width=16,layers=2,dropout=0.2,bptt=8",
                             "data=generated:words=200,size=4000"),
    "lstm-an4-small": ("model=acoustic:layers=2,width=16,directions=2,front=conv1d,dropout=0.2",
                       "data=generated:size=40", "batch=2"),
    "bert-wikipedia-small": ("model=bert:size=tiny,width=16,length=16",
                             "data=generated:words=128,size=60", "batch=4"),
    "ncf-movielens-small": ("model=ncf:factors=4,layers=16-8,dropout=0.2",
                            "data=generated:users=60,items=400", "batch=32"),
}


def run(*words, env=None, launcher=()):
    return subprocess.run([*launcher, COMMAND, "train", *map(str, words)],
                          env={**CLEAN, **(env or {})}, capture_output=True, text=True,
                          timeout=300, check=False)


class Case(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def result(self, *words, **more):
        out = run(*words, "--json", **more)
        self.assertEqual(out.returncode, 0, out.stdout + out.stderr)
        return json.loads(out.stdout)


class SameBits(Case):
    @unittest.skipUnless(MPIRUN, "built without MPI")
    def test_on_threads_and_under_mpirun(self):
        for job, keys in SMALL.items():
            with self.subTest(job=job):
                words = (job, "--set", *keys, "epochs=100", "steps=6")
                threads = self.result(*words, "--workers", 3)
                processes = self.result(*words, env=AS_ROOT, launcher=[*MPIRUN, "-n", "3"])
                self.assertEqual(threads["weights_hash"], processes["weights_hash"])
                self.assertEqual(threads["metric"], processes["metric"])

    def test_when_stopped_and_resumed(self):
        for job, keys in SMALL.items():
            with self.subTest(job=job):
                words = (job, "--workers", 2, "--set", *keys, "epochs=100")
                whole = self.result(*words, "steps=7")
                out = ("--out", self.folder / job)
                self.result(*words, "steps=4", *out)  # the end of a round
                resumed = self.result(*words, "steps=7", *out, "--resume")
                self.assertEqual(resumed["steps"], 7)
                self.assertEqual(whole["weights_hash"], resumed["weights_hash"])
                self.assertEqual(whole["metric"], resumed["metric"])


class BadInput(Case):
    def refused(self, job, *said):
        out = run(job, "--data", self.folder, "--workers", 2, "--set", *SMALL[job][:1],
                  "steps=1")
        self.assertEqual(out.returncode, 65, out.stdout + out.stderr)
        self.assertEqual(len(out.stderr.strip().splitlines()), 1, out.stderr)
        for words in said:
            self.assertIn(words, out.stderr)

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def write_an4(self):
        samples = struct.pack("<3200h", *(i % 100 for i in range(3200)))
        wave = b"RIFF" + struct.pack("<I", 36 + len(samples)) + b"WAVEfmt "
        wave += struct.pack("<IHHIIHH", 16, 1, 1, 16000, 32000, 2, 16)
        wave += b"data" + struct.pack("<I", len(samples)) + samples
        for half, names in (("train", "abcd"), ("test", "ef")):
            self.write(f"etc/an4_{half}.fileids", "".join(f"{half}/{n}\n" for n in names))
            self.write(f"etc/an4_{half}.transcription",
                       "".join(f"<s> YES </s> ({n})\n" for n in names))
            for name in names:
                self.write(f"wav/{half}/{name}.wav", wave)

    def test_a_wave_that_is_cut_short(self):
        self.write_an4()
        path = self.folder / "wav/test/f.wav"
        path.write_bytes(path.read_bytes()[:-100])
        self.refused("lstm-an4-small", "f.wav")

    def test_a_transcript_without_its_file(self):
        self.write_an4()
        (self.folder / "wav/train/c.wav").unlink()
        self.refused("lstm-an4-small", "there is a transcript but no", "train/c:")

    def test_a_word_outside_the_vocabulary(self):
        for part, more in (("train", ""), ("valid", ""), ("test", "the dog sat\n")):
            self.write(f"{part}.txt", 100 * "the cat sat\n" + more)
        self.refused("lstm-wikitext2-small", '"dog"', "not in the vocabulary")

    def test_a_rating_of_an_unknown_item(self):
        self.write("ml-1m.train.rating", "0\t1\t1\n0\t-7\t1\n")
        self.write("ml-1m.test.rating", "0\t2\t1\n")
        self.write("ml-1m.test.negative", "(0,2)\t0\n")
        self.refused("ncf-movielens-small", "ml-1m.train.rating", "unknown item -7")


if __name__ == "__main__":
    unittest.main(verbosity=2)  # with the reasons of what is skipped
