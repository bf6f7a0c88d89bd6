# SPDX-License-Identifier: Apache-2.0
"""The tables and pictures of docs/accuracy.md. Runs have a record each: bench/convergence.py."""

import convergence_report
from convergence_records import Records
from table import ROOT, Bench, Table

FOLDER = ROOT / "bench" / "results" / "convergence"


def train(bench: Bench) -> dict:
    script = ROOT / "bench" / "convergence.py"
    if bench.quick:
        bench.run(bench.torch, script, "--list")
        return {}
    bench.run(bench.torch, script, "--data", bench.data_folder())
    bench.run(bench.torch, script, "--plots")
    return {}


def records() -> dict:
    return {"records": Records(FOLDER)}


def parts(results: dict) -> dict[str, str]:
    return convergence_report.marked_tables(results["records"], ROOT / "docs" / "accuracy.md")


TABLES = [Table("convergence", "Is the model as good as dense's, in every domain?", "accuracy.md", 2000, ("data",),
                train, parts, records=records)]
