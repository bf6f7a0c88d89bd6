#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/pictures/communication/*.svg from messages that were really sent.

    communication_pictures.py build/release/bench/messages [FOLDER]

bench/messages.cc runs every collective on threads and says which message went from whom to whom in
which round. A picture has the rounds on the left, and on the right who sent how much to whom.
"""

import json
import math
import subprocess
import sys
from html import escape
from pathlib import Path

RANKS, N, DENSITY = 8, 2**16, 0.01
GROWTH_N = 2**19  # long enough that headers and counters do not count
GROWTH = [2, 4, 8, 16, 32, 64]
GROWTH_OF = ["dense", "topka", "gtopk", "oktopk", "spardl", "exdyna", "knot"]
LEFT, TOP, LANE, CELL = 46, 58, 34, 27
ROUNDS_WIDTH = 560
STYLE = """
  text { font: 13px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #5b6675 }
  .title { font-size: 16px; font-weight: 600; fill: #1c2430 }
  .ground { fill: #ffffff }
  .lane { stroke: #e1e5ea }
  .message { fill: none; stroke: #2563eb; opacity: .38 }
  .first { stroke: #d9480f; opacity: .85 }
  .cell { fill: #2563eb }
  .empty { fill: #eef1f5 }
  .small { font-size: 11px }
  @media (prefers-color-scheme: dark) {
    text { fill: #9aa7b6 } .title { fill: #e7ecf2 } .ground { fill: #1b2129 } .lane { stroke: #2e3742 }
    .message { stroke: #6ea8fe } .first { stroke: #ff9f5a } .cell { fill: #6ea8fe } .empty { fill: #252d37 }
  }
"""
COLOURS = ["#5c6773", "#d9480f", "#a97a00", "#0b8a5c", "#9333ea", "#0e7c9b", "#2563eb"]


def size(count):
    for unit in ("B", "kB", "MB"):
        if count < 999.5 or unit == "MB":
            return f"{count:.0f} {unit}" if unit == "B" or count >= 99.95 else f"{count:.1f} {unit}"
        count /= 1000


def ask(program, ranks, n, names):
    said = subprocess.run([program, str(ranks), str(n), str(DENSITY), *names], check=True,
                          capture_output=True, text=True, timeout=600).stdout
    return {one["name"]: one["messages"] for one in json.loads(said)["collectives"]}


class Figures:
    """What one step of an algorithm costs."""

    def __init__(self, messages, ranks):
        sent, count = [0] * ranks, [0] * ranks
        self.matrix = [[0] * ranks for _ in range(ranks)]
        for _, source, target, length in messages:
            sent[source] += length
            count[source] += 1
            self.matrix[source][target] += length
        self.rounds = max((message[0] for message in messages), default=0)
        self.bytes = max(sent)
        self.messages = max(count)
        self.imbalance = self.bytes / (sum(sent) / ranks) if sum(sent) else 1


def rounds_drawn(messages, figures):
    step = min(120, ROUNDS_WIDTH / max(figures.rounds, 1))
    largest = max(message[3] for message in messages)
    place = lambda turn, rank: (LEFT + 10 + turn * step, TOP + 18 + rank * LANE)
    lines = []
    for rank in range(RANKS):
        y = place(0, rank)[1]
        lines.append(f'<line class="lane" x1="{LEFT}" y1="{y}" x2="{LEFT + 20 + figures.rounds * step:.0f}" y2="{y}"/>')
        lines.append(f'<text class="small" x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{rank}</text>')
    for turn, source, target, length in sorted(messages, key=lambda one: one[1] == 0):
        (x1, y1), (x2, y2) = place(turn - 1, source), place(turn, target)
        width = 0.8 + 4.2 * math.sqrt(length / largest)
        middle = (x1 + x2) / 2
        kind = "message first" if source == 0 else "message"
        lines.append(f'<path class="{kind}" stroke-width="{width:.1f}" '
                     f'd="M{x1:.1f} {y1} C{middle:.1f} {y1} {middle:.1f} {y2} {x2:.1f} {y2}"/>')
    bottom = TOP + 18 + RANKS * LANE + 2
    every = max(1, math.ceil(figures.rounds / 16))
    for turn in range(1, figures.rounds + 1, every):
        lines.append(f'<text class="small" x="{place(turn, 0)[0]:.0f}" y="{bottom}" text-anchor="middle">{turn}</text>')
    lines.append(f'<text class="small" x="{LEFT}" y="{bottom + 20}">rank by round; a thicker line is a longer message, rank 0 sends the '
                 'orange ones</text>')
    return lines


def matrix_drawn(figures):
    left, top = LEFT + ROUNDS_WIDTH + 90, TOP + 14
    largest = max(map(max, figures.matrix)) or 1
    lines = [f'<text class="small" x="{left}" y="{TOP - 8}">bytes from row to column</text>']
    for source, row in enumerate(figures.matrix):
        y = top + source * CELL
        lines.append(f'<text class="small" x="{left - 10}" y="{y + 17}" text-anchor="end">{source}</text>')
        lines.append(f'<text class="small" x="{left + source * CELL + CELL / 2 - 1:.0f}" y="{top - 4}" text-anchor="middle">{source}</text>')
        for target, length in enumerate(row):
            x = left + target * CELL
            kind = f'class="cell" opacity="{0.12 + 0.88 * length / largest:.2f}"' if length else 'class="empty"'
            lines.append(f'<rect {kind} x="{x}" y="{y}" width="{CELL - 2}" height="{CELL - 2}" rx="3">'
                         f"<title>{source} to {target}: {size(length)}</title></rect>")
    y = top + RANKS * CELL + 20
    lines.append(f'<text class="small" x="{left}" y="{y}">darkest: {size(largest)}</text>')
    lines.append(f'<text class="small" x="{left}" y="{y + 17}">busiest rank: {figures.imbalance:.2f} times the mean</text>')
    return lines


def picture(width, height, title, subtitle, lines):
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">',
        f"<style>{STYLE}</style>", f'<rect class="ground" width="{width}" height="{height}" rx="10"/>',
        f'<text class="title" x="18" y="26">{escape(title)}</text>', f'<text x="18" y="46">{escape(subtitle)}</text>',
        *lines, "</svg>", ""])


def draw_algorithm(name, messages):
    figures = Figures(messages, RANKS)
    subtitle = (f"one step: {figures.rounds} rounds; the busiest rank sends {figures.messages} messages, "
                f"{size(figures.bytes)}")
    return picture(940, 388, f"{name} on {RANKS} ranks", subtitle,
                   rounds_drawn(messages, figures) + matrix_drawn(figures))


def panel(left, title, curves, write):
    width, height, top = 330, 250, 84
    values = [y for _, points in curves for _, y in points]
    low, high = math.floor(math.log2(min(values))), math.ceil(math.log2(max(values)))
    across = lambda ranks: left + (math.log2(ranks) - 1) / (math.log2(GROWTH[-1]) - 1) * width
    up = lambda y: top + height - (math.log2(y) - low) / (high - low) * height
    lines = [f'<text x="{left}" y="{top - 16}">{title}</text>']
    for power in range(low, high + 1, max(1, (high - low) // 6)):
        lines.append(f'<line class="lane" x1="{left}" y1="{up(2 ** power):.1f}" x2="{left + width}" y2="{up(2 ** power):.1f}"/>')
        lines.append(f'<text class="small" x="{left - 8}" y="{up(2 ** power) + 4:.1f}" text-anchor="end">{write(2 ** power)}</text>')
    for ranks in GROWTH:
        lines.append(f'<text class="small" x="{across(ranks):.0f}" y="{top + height + 18}" text-anchor="middle">{ranks}</text>')
    lines.append(f'<text class="small" x="{left + width / 2}" y="{top + height + 36}" text-anchor="middle">ranks</text>')
    for colour, (_, points) in zip(COLOURS, curves):
        path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in points)
        lines.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2.2" points="{path}"/>')
    return lines


def draw_growth(program):
    all_figures = {}
    for ranks in GROWTH:
        for name, messages in ask(program, ranks, GROWTH_N, GROWTH_OF).items():
            all_figures.setdefault(name, []).append((ranks, Figures(messages, ranks)))
    curves = lambda of: [(name, [(ranks, of(one)) for ranks, one in all_figures[name]]) for name in GROWTH_OF]
    lines = panel(76, "bytes that the busiest rank sends", curves(lambda one: one.bytes), size)
    lines += panel(500, "rounds, one latency each", curves(lambda one: one.rounds), str)
    for i, (colour, name) in enumerate(zip(COLOURS, GROWTH_OF)):
        x, y = 850, 100 + 24 * i
        lines.append(f'<rect x="{x}" y="{y - 10}" width="12" height="12" rx="3" fill="{colour}"/><text x="{x + 20}" y="{y}">{name}</text>')
    return picture(940, 388, "How the cost grows with the number of ranks",
                   f"counted in one step of n = {GROWTH_N:,} coordinates at density {100 * DENSITY:g} %", lines), all_figures


def table(messages):
    lines = ["| collective | rounds | messages of the busiest rank | bytes of it | of dense | busiest against mean |", "|---|---|---|---|---|---|"]
    dense = Figures(messages["dense"], RANKS).bytes
    for name, sent in messages.items():
        one = Figures(sent, RANKS)
        lines.append(f"| `{name}` | {one.rounds} | {one.messages} | {size(one.bytes)} | {100 * one.bytes / dense:.1f} % | "
                     f"{one.imbalance:.2f} |")
    return "\n".join(lines)


def main():
    program = sys.argv[1]
    folder = Path(sys.argv[2] if len(sys.argv) > 2 else "docs/pictures/communication")
    folder.mkdir(parents=True, exist_ok=True)
    messages = ask(program, RANKS, N, [])
    for name, sent in messages.items():
        (folder / f"{name}.svg").write_text(draw_algorithm(name, sent))
    growth, _ = draw_growth(program)
    (folder / "growth.svg").write_text(growth)
    print(table(messages))


if __name__ == "__main__":
    main()
