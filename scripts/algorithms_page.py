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


def contents(catalog):
    """A line of links for each kind."""
    kinds = [("Collectives", "collectives"), ("Compressors", "compressors"), ("Memories", "memories")]
    seen = {}  # a name may be of two kinds: GitHub numbers the second one's link
    lines = ["- [Schemes](#schemes)", "- [Costs side by side](#costs-side-by-side)"]
    for title, kind in kinds:
        links = []
        for entry in catalog[kind]:
            name = entry["name"]
            again = seen[name] = seen.get(name, -1) + 1
            links.append(f"[{name}](#{name}{f'-{again}' if again else ''})")
        lines.append(f"- [{title}](#{title.lower()}): " + ", ".join(links))
    return lines


def costs(catalog):
    """What each collective costs, beside one another."""
    rows = ["| collective | messages | words a rank sends | |", "|---|---|---|---|"]
    rows += [f"| [`{one['name']}`](#{one['name']}) | {one['messages']} | {one['words']} | {one['summary']} |"
             for one in catalog["collectives"]]
    return rows


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
             *contents(catalog), "", "## Schemes", "", "`schedule` is the density over time, unless the user says it; "
             "parameters in [compressors](compressors.md).", "",
             "| scheme | memory | compressor | collective | schedule | |", "|---|---|---|---|---|---|"]
    parts += [f"| `{one['name']}` | `{one['memory']}` | `{one['compressor']}` "
              f"| `{one['collective']}` | `{one['schedule']}` | {one['summary']} |" for one in catalog["schemes"]]
    parts += ["", "## Costs side by side", "",
              "In one step, before coding: messages on the longest path, and words of 32 bits. A message "
              "takes alpha and a", "word beta; the essays below have the bounds. log2 P is rounded up, G is the "
              "number of ranks in a node.",
              "Up to eight ranks agree on a global top-k directly: what is 2 log2 P in `knot`, `exdyna`, `micro` and "
              "`oktopk` is a path of 2 then.", "", *costs(catalog), ""]
    parts += ["Measured:", "", BEGIN, figures, END, ""]
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
