# SPDX-License-Identifier: Apache-2.0
"""Tables of whole training steps, with what a user would take instead beside them."""

import functools
import json
import statistics
import tempfile
from pathlib import Path

from table import RANKS, ROOT, Bench, Table, line_seconds, markdown, spread

# ---- a DDP step

MODES = {  # of ddp_step.py
    "none": "no communication", "dense": "DDP dense", "fp16": "DDP, fp16 hook", "bf16": "DDP, bf16 hook",
    "powersgd": "DDP, PowerSGD rank 4, one bucket", "attach": "`topknot.attach`, 1 % on every step",
    "optimizer": "`topknot.DistributedOptimizer`, as it is",
}


def ddp(network: str, bench: Bench) -> dict:
    words = ["--rounds", bench.runs]
    if bench.quick or network == "100mbit":
        words += ["--steps", 4]
    if bench.quick:
        words += ["--batch", 2]
    script = ROOT / "bench" / "ddp_step.py"
    if network == "loopback":
        return bench.json(bench.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", RANKS,
                          script, *words)
    with bench.cluster(network) as hosts:
        return bench.json(*hosts, bench.python, script, *words)


def ddp_table(network: str, results: dict) -> dict[str, str]:
    modes = results["modes"]
    none, dense = modes["none"]["seconds"], modes["dense"]["seconds"]
    rows = []
    for mode, text in MODES.items():
        if mode not in modes:
            continue
        seconds, sent = modes[mode]["seconds"], modes[mode]["sent_bytes"]
        line = "-" if network == "loopback" else f"{1e3 * line_seconds(sent, network):,.0f}"
        rows.append([text, spread([1e3 * one for one in seconds], 0),
                     spread([one / other for one, other in zip(seconds, none)]),
                     spread([other / one for one, other in zip(seconds, dense)]), f"{sent / 1e6:.2f}", line])
    head = ["a step", "ms", "x no communication", "x faster than DDP dense", "MB sent", "on the line, ms"]
    return {"": f"VGG-16, batch {results['batch']}, {results['ranks']} ranks with one thread each, torch "
                f"{results['torch']}. The limit is the larger of the first row and the last column.\n\n"
                + markdown(head, rows)}


def tensors(bench: Bench) -> dict:
    words = ["--steps", 4, "--rounds", 2] if bench.quick else ["--steps", 40]
    return {str(ranks): bench.json(bench.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                                   ranks, ROOT / "bench" / "ddp_step.py", "--model", "tensors", "--modes",
                                   "none,dense,attach", *words) for ranks in (2, RANKS)}


def tensors_table(results: dict) -> dict[str, str]:
    rows = [[MODES[mode], *(spread([1e3 * one for one in run["modes"][mode]["seconds"]], 1)
                            for run in results.values())] for mode in ("none", "dense", "attach")]
    head = ["1,000 tensors of 64 values, ms a step", *(f"{ranks} ranks" for ranks in results)]
    return {"": markdown(head, rows)}


# ---- the trainer


def trained(bench: Bench, words: list, *arguments) -> list[dict]:
    """The steps of a run of `topknot train`, one after another."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        bench.run(*words, bench.topknot, "train", *arguments, "--quiet", "--out", Path(folder) / "run")
        return [json.loads(line) for line in (Path(folder) / "run" / "steps.jsonl").read_text().splitlines()]


OVERLAP = [("dense", 0), ("dense", 20), ("dense", 25), ("dense", 40), ("knot", 0), ("knot", 8), ("oktopk", 0),
           ("oktopk", 8)]


def overlap(bench: Bench) -> dict:
    cases = OVERLAP[:1] + OVERLAP[4:5] if bench.quick else OVERLAP
    steps, settings = (4, ["batch=2"]) if bench.quick else (14, ["batch=8"])
    rows = []
    with bench.cluster("1gbit") as hosts:
        for scheme, size in cases:
            run = trained(bench, hosts, "vgg16-cifar10", "--scheme", scheme, "--density", 0.01, "--no-evaluate",
                          "--set", f"bucket_mb={size}", "data=generated:size=640", f"steps={steps}",
                          "density_schedule=constant", *settings)
            rows.append({"scheme": scheme, "bucket_mb": size, "seconds": [step["seconds"] for step in run],
                         "exposed": [step["exposed_seconds"] for step in run]})
    return {"rows": rows}


def overlap_table(results: dict) -> dict[str, str]:
    rows = []
    for row in results["rows"]:
        exposed = row["exposed"][min(4, len(row["exposed"]) - 1):]
        rows.append([f"`{row['scheme']}`", str(row["bucket_mb"]) if row["bucket_mb"] else "0 (one bucket)",
                     f"{1e3 * statistics.fmean(row['exposed']):.0f}", spread([1e3 * one for one in exposed], 0)])
    head = ["scheme", "bucket_mb", "exposed, mean, ms", "from step 4 on"]
    return {"": markdown(head, rows)}


# ---- local steps


def local_steps(bench: Bench) -> dict:
    steps = 16 if bench.quick else 320
    data = bench.data_folder()
    return {str(h): bench.json(bench.topknot, "train", "lstm-wikitext2-local", "--data", data, "--json", "--quiet",
                               "--set", f"local_steps={h}", f"steps={steps}") for h in (1, 16)}


def local_steps_table(results: dict) -> dict[str, str]:
    rows = [[h, f"{run['sent_bytes_per_step']:,.0f}",
             f"1/{run['dense_bytes_per_step'] / run['sent_bytes_per_step']:.0f}", f"{run['metric']['value']:.1f}"]
            for h, run in results.items()]
    return {"": markdown(["H", "bytes a step, busiest worker", "of dense's", "perplexity"], rows)}


def with_ddp(network: str, minutes: float, needs: tuple[str, ...], where: str) -> Table:
    return Table(f"ddp-{network}", f"How long is a PyTorch step of VGG-16 {where}?", "results.md", minutes,
                 ("./run python", *needs), functools.partial(ddp, network), functools.partial(ddp_table, network))


TABLES = [
    with_ddp("1gbit", 6, ("root", "mpi"), "on four hosts at 1 Gb/s"),
    with_ddp("100mbit", 12, ("root", "mpi"), "on four hosts at 100 Mb/s"),
    with_ddp("loopback", 4, (), "on one host"),
    Table("ddp-tensors", "What does the hook cost where there is nothing to send?", "results.md", 1,
          ("./run python",), tensors, tensors_table),
    Table("overlap", "How much of an exchange hides behind backward?", "results.md", 3, ("root", "mpi"),
          overlap, overlap_table),
    Table("local-steps", "What do local steps do?", "local-steps.md", 6, ("data",), local_steps, local_steps_table),
]
