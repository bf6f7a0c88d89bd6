#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/algorithms.md from the catalog and the essays, so that it cannot go stale.

usage: scripts/algorithms_page.py COMMAND [--check] [--measure]

COMMAND is the topknot command. --check only compares, --measure takes the figures anew.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "algorithms.md"
BENCH = ["bench", "allreduce", "--workers", "8", "--n", "4194304", "--density", "0.01",
         "--steps", "10", "--json", "--collective"]
BEGIN, END = "<!-- measured -->", "<!-- end of measured -->"


def essay(path):
    """The comment before the includes, without the licence line."""
    lines = []
    for line in path.read_text().splitlines():
        if not line.startswith("//"):
            break
        lines.append(line[3:])
    return "\n".join(lines[1:]).strip()


def parameters(entry):
    if not entry["parameters"]:
        return ""
    rows = [f"| `{one['name']}` | `{one['default']}` | {one['range'].replace('|', ', ')} "
            f"| {one['meaning']} |" for one in entry["parameters"]]
    return "\n".join(["| parameter | default | range | meaning |", "|---|---|---|---|", *rows, ""])


def section(title, folder, entries):
    parts = [f"## {title}", ""]
    for entry in entries:
        name = entry["name"]
        parts += [f"### {name}", "", entry["summary"][0].upper() + entry["summary"][1:] + "."
                  + (f" {entry['paper']}." if entry["paper"] else ""), ""]
        parts += ["```text", essay(ROOT / "src" / folder / f"{name}.cc"), "```", ""]
        parts += [parameters(entry)] if entry["parameters"] else []
    return parts


def measured(command, names):
    out = json.loads(subprocess.run([command, *BENCH, *names], check=True, capture_output=True,
                                    text=True).stdout)
    rows = ["| collective | sent by the busiest rank | mean | messages | coordinates of the sum |",
            "|---|---|---|---|---|"]
    for one in out["results"]:
        label = one["collective"] + (":" + one["parameters"] if one["parameters"] else "")
        rows.append(f"| `{label}` | {one['sent_bytes_max'] / 1e3:,.1f} kB "
                    f"| {one['sent_bytes_mean'] / 1e3:,.1f} kB | {one['messages_max']:.0f} "
                    f"| {one['sum_nnz']:,.0f} |")
    shown = " ".join(BENCH[:-2])
    return "\n".join([f"`topknot {shown}`: 8 ranks, k = {out['k']:,}, bytes a step with headers "
                      "and agreement:", "", *rows])


def page(command, figures):
    catalog = json.loads(subprocess.run([command, "list", "--json"], check=True,
                                        capture_output=True, text=True).stdout)
    names = [one["name"] for one in catalog["collectives"]]
    if figures is None:
        figures = measured(command, [*names, "oktopk:coding=plain", "knot:values=bf16"])
    parts = ["# The algorithms", "",
             "Made by `scripts/algorithms_page.py` from the catalog and from the essay at the head "
             "of each file.", "alpha is the latency of a message, beta the time of a 32-bit word, "
             "P the number of ranks, n the", "length of the vector and k what is wanted of it.", "",
             "## Schemes", "", "`schedule` is the density over time, unless the user says it; "
             "parameters in [compressors](compressors.md).", "",
             "| scheme | memory | compressor | collective | schedule | |", "|---|---|---|---|---|---|"]
    parts += [f"| `{one['name']}` | `{one['memory']}` | `{one['compressor']}` "
              f"| `{one['collective']}` | `{one['schedule']}` | {one['summary']} |" for one in catalog["schemes"]]
    parts += ["", "## Measured", "", BEGIN, figures, END, ""]
    parts += section("Collectives", "collectives", catalog["collectives"])
    parts += section("Compressors", "compressors", catalog["compressors"])
    parts += section("Memories", "memory", catalog["memories"])
    return "\n".join(parts).rstrip() + "\n"


def main(words):
    options = {word for word in words if word.startswith("--")}
    commands = [word for word in words if not word.startswith("--")]
    if len(commands) != 1 or options - {"--check", "--measure"}:
        sys.exit(__doc__)
    old = PAGE.read_text() if PAGE.exists() else ""
    found = re.search(re.escape(BEGIN) + "\n(.*)\n" + re.escape(END), old, re.DOTALL)
    figures = found.group(1) if found and "--measure" not in options else None
    if "--check" in options and figures is None:
        sys.exit("docs/algorithms.md has no figures; run scripts/algorithms_page.py COMMAND.")
    new = page(commands[0], figures)
    if "--check" not in options:
        PAGE.write_text(new)
    elif new != old:
        sys.exit("docs/algorithms.md is out of date; run scripts/algorithms_page.py COMMAND.")


if __name__ == "__main__":
    main(sys.argv[1:])
