# SPDX-License-Identifier: Apache-2.0
"""Tables of one rank's own work: selecting, coding, a bucket's step."""

import tempfile
from pathlib import Path

import recorded_gradients
from table import ROOT, Bench, Table, markdown, spread


def local_step(bench: Bench) -> dict:
    n = 1 << (16 if bench.quick else 25)
    words = [bench.topknot, "bench", "select", "--n", n, "--density", 0.01, "--compressor", "all", "--json"]
    return {"n": n, "runs": [bench.json(*words) for _ in range(bench.runs)]}


def by_name(runs: list[dict], key: str) -> dict[str, list[dict]]:
    """The rows of several runs under their names, in the order of the first."""
    return {one[key]: [next(row for row in run["results"] if row[key] == one[key]) for run in runs]
            for one in runs[0]["results"]}


def local_step_table(results: dict) -> dict[str, str]:
    runs = results["runs"]
    rows = [[f"`{name}`", spread([1e3 * row["seconds"] for row in of], 1),
             spread([row["ratio_to_stream_add"] for row in of]),
             f"{of[0]['density_got']:.5f}", "yes" if all(row["exact"] for row in of) else "no"]
            for name, of in by_name(runs, "compressor").items()]
    add = spread([1e3 * run["stream_add_seconds"] for run in runs], 1)
    head = ["compressor", "ms", "x stream add", "density", "exactly the k largest"]
    return {"": f"n = {results['n']:,}, 1 %, one thread. The limit is memory: a plain `r[i] += g[i]` over the same "
                f"vector, 12 bytes a coordinate, takes {add} ms.\n\n" + markdown(head, rows)}


def against_torch(bench: Bench) -> dict:
    n = 1 << (16 if bench.quick else 25)
    return bench.json(bench.torch, ROOT / "bench" / "topk_vs_torch.py", bench.topknot, "--n", n, "--runs", bench.runs)


def against_torch_table(results: dict) -> dict[str, str]:
    runs = results["runs"]
    rows = [[text, spread([1e3 * run[key] for run in runs], 1),
             spread([run[key] / run["stream_add"] for run in runs]),
             spread([run["torch"] / run[key] for run in runs], 1)]
            for key, text in (("torch", "`torch.topk` of `abs()`"), ("topk", "`topk`"), ("reuse", "`reuse`"))]
    head = ["step", "ms", "x stream add", "x faster than torch"]
    return {"": f"n = {results['n']:,}, 1 %, one thread, torch {results['torch_version']}: add the gradient to the "
                "residual, find the k largest, clear them.\n\n" + markdown(head, rows)}


def whole_step(bench: Bench) -> dict:
    n = 1 << (16 if bench.quick else 25)
    words = [bench.topknot, "bench", "step", "--n", n, "--density", 0.01, "--json"]
    return {"n": n, "runs": [bench.json(*words) for _ in range(bench.runs)]}


def whole_step_table(results: dict) -> dict[str, str]:
    runs = results["runs"]
    row = [spread([1e3 * run["select_seconds"] for run in runs], 1),
           spread([1e3 * run["step_seconds"] for run in runs], 1), spread([run["ratio"] for run in runs])]
    return {"": f"n = {results['n']:,}, 1 %, one rank.\n\n"
                + markdown(["local step, ms", "a bucket's whole step, ms", "ratio"], [row])}


def wire(bench: Bench) -> dict:
    n = 1 << (16 if bench.quick else 24)
    words = [bench.topknot, "bench", "wire", "--n", n, "--density", 0.01, "--json"]
    return {"n": n, "runs": [bench.json(*words) for _ in range(bench.runs)]}


FOR_COMPARISON = [("delta", "f32"), ("plain", "f32")]  # with rice, which is taken


def wire_table(results: dict) -> dict[str, str]:
    rows = []
    for i, first in enumerate(results["runs"][0]["results"]):
        if first["coding"] != "rice" and (first["coding"], first["values"]) not in FOR_COMPARISON:
            continue
        of = [run["results"][i] for run in results["runs"]]
        over = 100 * (first["bits_per_pair"] / first["entropy_bits_per_pair"] - 1)
        rows.append([f"`{first['coding']}`", f"`{first['values']}`", f"{first['bits_per_pair']:.2f}",
                     f"{first['entropy_bits_per_pair']:.2f}", f"{over:.1f} %",
                     *(spread([row[f"{what}_gbps"] for row in of]) for what in ("encode", "check", "decode"))])
    head = ["coding", "values", "bits a pair", "entropy", "above it", "encode GB/s", "check", "decode"]
    return {"": f"n = {results['n']:,}, 1 %; GB/s of plain 8-byte pairs. The limit is the entropy of the positions, "
                "plus the bits of a value.\n\n" + markdown(head, rows)}


def recorded(bench: Bench) -> dict:
    jobs = list(recorded_gradients.JOBS)[-1:] if bench.quick else list(recorded_gradients.JOBS)
    data = bench.data_folder()
    with tempfile.TemporaryDirectory() as folder:
        return {"jobs": {name: recorded_gradients.measure(bench, data, Path(folder), name) for name in jobs}}


def recorded_tables(results: dict) -> dict[str, str]:
    """One table of densities and one of times; a column is a model."""
    jobs = results["jobs"]
    titles = [recorded_gradients.JOBS[name][3] for name in jobs]
    names = [row["compressor"] for row in next(iter(jobs.values()))["results"]]

    def cells(text) -> list[list[str]]:
        return [[f"`{name}`", *(text(next(row for row in job["results"] if row["compressor"] == name))
                                for job in jobs.values())] for name in names]

    sizes = ["coordinates", *(f"{job['n']:,}" for job in jobs.values())]
    adds = ["stream add, ms", *(f"{1e3 * job['stream_add_seconds']:.3f}" for job in jobs.values())]
    times = markdown(["x stream add", *titles],
                     [sizes, adds, *cells(lambda row: f"{row['ratio_to_stream_add']:.2f}")])
    densities = markdown(["density, %", *titles], cells(lambda row: f"{100 * row['density_got']:.2f}"))
    return {"": times + "\n" + densities}


TABLES = [
    Table("select", "What does selecting cost, over adding two vectors?", "results.md", 2, (),
          local_step, local_step_table),
    Table("torch-topk", "How much faster than torch.topk is it?", "results.md", 2, ("torch",),
          against_torch, against_torch_table),
    Table("step", "What does a bucket's step cost beyond selecting?", "results.md", 1, (),
          whole_step, whole_step_table),
    Table("wire", "How many bits does a pair take?", "results.md", 1, (), wire, wire_table),
    Table("recorded", "How do compressors do on real gradients?", "results.md", 15, ("data",),
          recorded, recorded_tables),
]
