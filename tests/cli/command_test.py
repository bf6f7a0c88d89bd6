#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the command promises to those who read it: JSON fields, sentences and exit codes."""

import json
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

COMMAND = sys.argv.pop(1)
MPIRUN = sys.argv.pop(1).split() if len(sys.argv) > 1 else []
LAUNCHER_WORDS = ("OMPI_", "PMI", "PMIX", "SLURM", "PBS", "TOPKNOT_")
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHER_WORDS)}
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def run(*words, env=None, launcher=()):
    return subprocess.run([*launcher, COMMAND, *words], env={**CLEAN, **(env or {})},
                          capture_output=True, text=True, timeout=120, check=False)


def safetensors(arrays, metadata=None):
    """A file of F32 arrays, by name: (shape, values)."""
    header = {"__metadata__": metadata} if metadata else {}
    data = b""
    for name, (shape, values) in arrays.items():
        packed = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape,
                        "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def recording(steps=(0, 7), ranks=(0, 1)):
    """Gradients of a matrix of 20 x 50 and a vector of 24: 1024 coordinates."""
    draw = random.Random(5)
    return {f"step-{step}/rank-{rank}/{name}": (shape, [draw.gauss(0, 1) for _ in range(size)])
            for step in steps for rank in ranks
            for name, shape, size in (("weight", [20, 50], 1000), ("bias", [24], 24))}


class Json(unittest.TestCase):
    def test_bench_sum_compares_with_the_true_top_k(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "g.safetensors")
            with open(file, "wb") as stream:
                stream.write(safetensors(recording()))
            out = run("bench", "sum", "--gradients", file, "--density", "0.05", "--workers", "2",
                      "--steps", "6", "--window", "3", "--scheme", "dense,gtopk,adtopk", "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        said = {one["scheme"]: one for one in json.loads(out.stdout)["results"]}
        self.assertEqual(said["dense"]["mean_distance"], 0)
        self.assertEqual(said["dense"]["untouched_rows"], 0)
        self.assertGreater(said["gtopk"]["mean_distance"], 0)
        self.assertEqual(said["gtopk"]["agreed"], 51)
        self.assertEqual([(one["tensor"], one["rows"]) for one in said["gtopk"]["tensors"]],
                         [("weight", 20)])
        self.assertEqual(said["adtopk"]["untouched_rows"], 0)  # it looks at every row
        self.assertEqual(run("bench", "sum", "--scheme", "oktpok").returncode, 2)

    def test_bench_select_has_what_it_promises(self):
        out = run("bench", "select", "--n", "20000", "--density", "0.05", "--steps", "3", "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        said = json.loads(out.stdout)
        self.assertEqual(said["n"], 20000)
        for key in ("density", "stream_add_seconds", "memcpy_seconds"):
            self.assertIn(key, said)
        by_name = {one["compressor"]: one for one in said["results"]}
        self.assertTrue(by_name["topk"]["exact"])
        self.assertAlmostEqual(by_name["topk"]["density_got"], 0.05)
        for one in said["results"]:
            self.assertLessEqual(
                {"compressor", "seconds", "ratio_to_stream_add", "density_got", "threshold",
                 "exact"}, set(one))
        self.assertIsNone(said["gradients"])

    def test_bench_wire_is_near_the_entropy(self):
        # A coding that is asked for is listed however slow it is here.
        out = run("bench", "wire", "--n", "1000000", "--density", "0.01", "--coding", "auto", "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        best = {}
        for one in json.loads(out.stdout)["results"]:
            self.assertLessEqual({"coding", "values", "bits_per_pair", "entropy_bits_per_pair",
                                  "encode_gbps", "decode_gbps"}, set(one))
            best[one["values"]] = min(best.get(one["values"], 1e9), one["bits_per_pair"])
            self.assertGreater(one["bits_per_pair"], one["entropy_bits_per_pair"] - 0.5)
        self.assertLess(best["f32"], 41.5)

    def test_bench_allreduce_loses_nothing_and_lists_what_was_asked_for(self):
        out = run("bench", "allreduce", "--workers", "3", "--n", "30000", "--steps", "2",
                  "--collective", "topka:coding=plain", "dense", "topka", "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        said = json.loads(out.stdout)
        self.assertEqual((said["ranks"], said["n"], said["k"]), (3, 30000, 300))
        self.assertEqual([one["collective"] for one in said["results"]],
                         ["topka", "dense", "topka"])
        self.assertEqual(said["results"][0]["parameters"], "coding=plain")
        for one in said["results"]:
            self.assertEqual(one["lost"], 0)
            self.assertIs(one["agree"], True)
        # Two of the others' 300 pairs of 8 bytes and a header each.
        self.assertEqual(said["results"][0]["sent_bytes_max"], 2 * (300 * 8 + 32))
        self.assertEqual(said["results"][1]["sent_bytes_max"], 4 * (10000 * 4 + 32))
        self.assertEqual(said["baseline"]["vs_dense"], 1)
        self.assertEqual(said["baseline"]["collective"], "dense")
        self.assertGreaterEqual(said["results"][0]["seconds_p99"], said["results"][0]["seconds"])

    def test_bench_allreduce_fits_a_line_of_a_fit_through_its_sizes(self):
        out = run("bench", "allreduce", "--workers", "2", "--steps", "3", "--collective", "knot,topka",
                  "--sizes", "8,1k,100k", "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        said = json.loads(out.stdout)
        self.assertEqual([(one["collective"], one["n"]) for one in said["results"]],
                         [(name, n) for n in (8, 1000, 100000) for name in ("knot", "topka")])
        self.assertEqual([one["collective"] for one in said["fits"]], ["knot", "topka"])
        for one in said["fits"]:
            self.assertGreater(one["beta_seconds_per_byte"], 0)

    def test_bench_allreduce_is_a_table_of_100_columns_that_names_its_network(self):
        words = ("bench", "allreduce", "--workers", "2", "--n", "20k", "--steps", "2", "--sizes", "64,20k",
                 "--collective", "all")
        out = run(*words)
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertLessEqual(max(map(len, out.stdout.splitlines())), 100)
        self.assertEqual(len(re.findall(r"(?m)^  dense\S* \(baseline\) .* 1\.00x$", out.stdout)), 2)
        self.assertIn("# network: none: threads share memory, so there is nothing to win", out.stdout)
        self.assertRegex(out.stdout, r"(?m)^# knot: alpha .* \+ beta .* ns a byte of the vector$")
        self.assertIn("busbw", run(*words, "--nccl-tests").stdout)

    def test_a_modelled_link_makes_a_dense_sum_slow_and_a_sparse_one_fast(self):
        words = ("bench", "allreduce", "--workers", "4", "--n", "200k", "--steps", "3", "--collective",
                 "knot", "--density", "0.01")
        out = run(*words, "--link", "100mbit,1ms", "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        said = json.loads(out.stdout)
        # 1.2 MB at 12.5 MB/s, less what frames take.
        self.assertGreater(said["baseline"]["seconds"], 0.096)
        self.assertGreater(said["results"][0]["vs_dense"], 2)
        self.assertIn("a model of 100mbit,1ms", said["network"])
        out = run(*words, "--link", "fast")
        self.assertEqual(out.returncode, 2)
        self.assertIn("write it as 1gbit,50us", out.stderr)

    def test_list_has_every_part_with_its_parameters(self):
        said = json.loads(run("list", "--json").stdout)
        for kind in ("schemes", "collectives", "compressors", "memories", "transports"):
            self.assertTrue(said[kind], kind)
        dense = next(one for one in said["collectives"] if one["name"] == "dense")
        via = next(one for one in dense["parameters"] if one["name"] == "via")
        self.assertEqual((via["default"], via["range"]), ("own", "own|native"))


class Recorded(unittest.TestCase):
    """bench --gradients FILE."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.file = Path(scratch.name) / "g.safetensors"
        self.write(recording(), {"parameters": "weight\nbias", "model": "mlp"})

    def write(self, arrays, metadata=None):
        self.file.write_bytes(safetensors(arrays, metadata))

    def said(self, *words, **more):
        out = run("bench", *words, "--gradients", str(self.file), "--json", **more)
        self.assertEqual(out.returncode, 0, out.stderr)
        return json.loads(out.stdout)

    def refused(self, *words, said, code=65):
        for command in ("select", "allreduce"):
            out = run("bench", command, "--gradients", str(self.file), *words)
            self.assertEqual(out.returncode, code, out.stdout + out.stderr)
            self.assertEqual(out.stdout, "")
            self.assertEqual(len(out.stderr.strip().splitlines()), 1, out.stderr)
            self.assertIn(said, out.stderr)

    def test_select_takes_length_and_layout_from_the_file(self):
        said = self.said("select", "--density", "0.1", "--steps", "2")
        self.assertEqual(said["n"], 1024)
        self.assertEqual(said["gradients"], {"file": str(self.file), "model": "mlp", "data": "",
                                             "parameters": 2, "steps": [0, 7], "ranks": [0, 1]})
        by_name = {one["compressor"]: one for one in said["results"]}
        self.assertTrue(by_name["topk"]["exact"])
        self.assertGreater(by_name["topk"]["threshold"], by_name["randomk"]["threshold"])

    def test_without_memory_the_threshold_is_the_recorded_gradients_own(self):
        for steps, last in ((2, 0), (3, 7)):
            arrays = recording()
            values = sorted((-abs(x) for name, (_, part) in arrays.items()
                             if name.startswith(f"step-{last}/rank-0/") for x in part))
            # 105 come before those that are timed.
            said = self.said("select", "--density", "0.1", "--steps", str(steps), "--memory",
                             "none", "--compressor", "topk")
            (topk,) = said["results"]
            self.assertTrue(topk["exact"])
            self.assertAlmostEqual(topk["density_got"], 102 / 1024)
            self.assertAlmostEqual(topk["threshold"], -values[101], places=5)

    def test_a_person_sees_density_threshold_and_time(self):
        out = run("bench", "select", "--gradients", str(self.file), "--steps", "2")
        self.assertEqual(out.returncode, 0, out.stderr)
        for word in ("threshold", "density", "time (ms)", "(mlp, 2 steps, 2 ranks)"):
            self.assertIn(word, out.stdout)

    def test_allreduce_shares_the_ranks_out_and_loses_nothing(self):
        said = self.said("allreduce", "--workers", "3", "--steps", "2")
        self.assertEqual((said["ranks"], said["n"], said["gradients"]["steps"]), (3, 1024, [0, 7]))
        self.assertTrue(all(one["lost"] == 0 and one["agree"] for one in said["results"]))

    def test_what_only_drawn_gradients_have_cannot_be_given_too(self):
        self.refused("--n", "1024", said="--n cannot be given with --gradients", code=2)
        out = run("bench", "allreduce", "--gradients", str(self.file), "--correlation", "0.5")
        self.assertEqual(out.returncode, 2, out.stdout)
        self.assertIn("--correlation cannot be given with --gradients", out.stderr)

    def test_a_file_that_is_no_recording_is_refused(self):
        whole = self.file.read_bytes()
        self.file.write_bytes(whole[:-100])
        self.refused(said="bytes of data")
        self.file.write_bytes(b"PK\x03\x04" + bytes(100))
        self.refused(said=str(self.file))
        self.write({"weight": ([1], [1.0])})
        self.refused(said="step-10/rank-0/PARAMETER")
        arrays = recording()
        arrays["step-7/rank-0/weight"] = ([50, 20], arrays["step-7/rank-0/weight"][1])
        self.write(arrays)
        self.refused(said="another shape")
        arrays = recording()
        arrays["step-7/rank-1/bias"][1][3] = float("nan")
        self.write(arrays)
        self.refused(said="'step-7/rank-1/bias' has a value that is not finite")
        self.file.unlink()
        self.refused(said="cannot be read")

    @unittest.skipUnless(MPIRUN, "built without MPI")
    def test_processes_read_it_too(self):
        said = self.said("allreduce", "--steps", "2", "--collective", "knot", "topka",
                         "--compressor", "adtopk", env=AS_ROOT, launcher=[*MPIRUN, "-n", "2"])
        self.assertEqual((said["ranks"], said["n"]), (2, 1024))
        self.assertTrue(all(one["lost"] == 0 and one["agree"] for one in said["results"]))


class BadInput(unittest.TestCase):
    def refused(self, *words, said, env=None):
        out = run(*words, env=env)
        self.assertEqual(out.returncode, 2, out.stdout + out.stderr)
        self.assertEqual(out.stdout, "")
        self.assertEqual(len(out.stderr.strip().splitlines()), 1, out.stderr)
        self.assertIn(said, out.stderr)

    def test_an_unknown_name_gets_the_nearest(self):
        self.refused("bench", "allreduce", "--collective", "denes", said="nearest is dense")
        self.refused("bench", "select", "--compressor", "topc", said="nearest is topk")
        self.refused("bench", "allreduce", "--collective", "dense:via=nativ",
                     said="nearest is native")
        self.refused("bench", "allreduce", "--collective", "dense:vai=own", said="nearest is via")

    def test_a_density_must_be_a_share(self):
        for density in ("0", "-0.1", "1.01", "nan"):
            self.refused("bench", "select", "--density", density, said="(0, 1]")

    def test_there_must_be_something_to_send_and_someone_to_send_it(self):
        self.refused("bench", "select", "--n", "0", said="--n 0")
        self.refused("bench", "wire", "--n", "0", said="--n 0")
        self.refused("bench", "allreduce", "--workers", "0", said="--workers 0")
        self.refused("bench", "allreduce", "--workers", "-3", said="--workers -3")

    def test_positions_must_fit_into_32_bits(self):
        for what in ("select", "step", "wire", "allreduce"):
            self.refused("bench", what, "--n", str(1 << 32), said="at most 4294967295")

    def test_an_unknown_option_or_subcommand_is_named(self):
        self.refused("bench", "select", "--nn", "5", said="nearest is --n")
        self.refused("lsit", said="nearest is list")
        self.refused("bench", "slect", said="nearest is select")

    @unittest.skipUnless(MPIRUN, "built without MPI")
    def test_processes_that_cannot_see_one_another_are_told_the_cure(self):
        self.refused("bench", "allreduce", "--n", "100", env={"PMI_SIZE": "4"},
                     said="each is alone")

    @unittest.skipUnless(MPIRUN, "built without MPI")
    def test_launchers_that_mpi_cannot_use_are_refused_with_the_cure(self):
        bench = ("bench", "allreduce", "--n", "100")
        self.refused(*bench, env={"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0",
                                  "MASTER_ADDR": "localhost"}, said="start it as `mpirun -n 2")
        self.refused(*bench, env={"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"},
                     said="srun --mpi=pm")

    def test_who_forgot_the_launcher_is_told(self):
        out = run("bench", "allreduce", "--n", "100", "--steps", "1",
                  env={"SLURM_JOB_ID": "9", "SLURM_NTASKS": "4"})
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertIn("Slurm has granted 4 tasks", out.stderr)


@unittest.skipUnless(MPIRUN, "built without MPI")
class UnderMpirun(unittest.TestCase):
    def test_the_launchers_ranks_are_the_workers(self):
        out = run("bench", "allreduce", "--n", "10000", "--steps", "2", "--json", env=AS_ROOT,
                  launcher=[*MPIRUN, "-n", "3"])
        self.assertEqual(out.returncode, 0, out.stderr)
        said = json.loads(out.stdout)
        self.assertEqual(said["ranks"], 3)
        self.assertTrue(all(one["lost"] == 0 and one["agree"] for one in said["results"]))

    def test_another_number_of_workers_is_refused(self):
        out = run("bench", "allreduce", "--n", "100", "--workers", "3", env=AS_ROOT,
                  launcher=[*MPIRUN, "-n", "2"])
        self.assertEqual(out.returncode, 2, out.stderr)
        self.assertIn("--workers 3 cannot be", out.stderr)

    def test_an_interface_that_is_not_there_is_refused_once(self):
        out = run("bench", "allreduce", "--n", "100", "--interface", "eth99", env=AS_ROOT,
                  launcher=[*MPIRUN, "-n", "2"])
        self.assertEqual(out.returncode, 2, out.stderr)
        self.assertEqual(out.stderr.count("There is no network interface eth99"), 1, out.stderr)

    def test_while_a_rank_is_missing_it_is_said_what_may_be_wrong(self):
        late = 'if [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ]; then sleep 4; fi; exec "$@"'
        out = run("bench", "allreduce", "--n", "100", "--steps", "1", "--timeout", "2", env=AS_ROOT,
                  launcher=[*MPIRUN, "-n", "2", "sh", "-c", late, "sh"])
        self.assertEqual(out.stderr.count("has not brought the 2 ranks together"), 1, out.stderr)

    def test_a_rank_that_never_comes_ends_the_job(self):
        for missing in ("0", "1"):
            never = f'if [ "${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}" = {missing} ]; then exec sleep 60; fi; exec "$@"'
            start = time.monotonic()
            out = run("bench", "allreduce", "--n", "100", "--steps", "1", "--timeout", "1", env=AS_ROOT,
                      launcher=[*MPIRUN, "-n", "2", "sh", "-c", never, "sh"])
            self.assertEqual(out.returncode, 75, out.stderr)
            self.assertEqual(out.stderr.count("has not brought the 2 ranks together within 5 s: one has not started"),
                             1, out.stderr)
            self.assertLess(time.monotonic() - start, 40)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # with the reasons of what is skipped
