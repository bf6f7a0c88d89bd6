# SPDX-License-Identifier: Apache-2.0
"""A small line chart as SVG that is legible on light pages and on dark ones."""

import math

WIDTH, HEIGHT = 720, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 40, 48
COLOURS = ["dense", "sparse", "third", "fourth"]  # classes of the style

STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #333 }
.title { font-weight: 600; fill: #111 }
.grid { stroke: #ddd } .axis { stroke: #888 }
.line { fill: none; stroke-width: 2.5; stroke-linejoin: round }
.dense { stroke: #777 } .sparse { stroke: #c8321f } .third { stroke: #1f6fc8 } .fourth { stroke: #2a8f4a }
.dot.dense, .name.dense { fill: #777; stroke: none } .dot.sparse, .name.sparse { fill: #c8321f; stroke: none }
.dot.third, .name.third { fill: #1f6fc8; stroke: none } .dot.fourth, .name.fourth { fill: #2a8f4a; stroke: none }
@media (prefers-color-scheme: dark) {
  text { fill: #ccc } .title { fill: #eee } .grid { stroke: #444 } .axis { stroke: #888 }
  .dense { stroke: #aaa } .sparse { stroke: #ff7b66 } .third { stroke: #6fb0ff } .fourth { stroke: #6fd08c }
  .dot.dense, .name.dense { fill: #aaa } .dot.sparse, .name.sparse { fill: #ff7b66 }
  .dot.third, .name.third { fill: #6fb0ff } .dot.fourth, .name.fourth { fill: #6fd08c }
}
"""


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers from low to high."""
    rough = (high - low) / about
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * one for one in (1, 2, 5, 10) if power * one >= rough)
    first = math.ceil(low / step - 1e-9)
    return [round(step * i, 10) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def lines(title: str, x_name: str, y_name: str, curves: dict[str, list[tuple[float, float]]],
          names: dict[str, str]) -> str:
    """Curves of (x, y) points, each with its name at its end."""
    xs = [x for points in curves.values() for x, _ in points]
    ys = [y for points in curves.values() for _, y in points]
    low, high = min(ys), max(ys) + 0.05 * (max(ys) - min(ys))

    def place(x: float, y: float) -> tuple[float, float]:
        across = (WIDTH - LEFT - RIGHT) * (x - min(xs)) / (max(xs) - min(xs))
        up = (HEIGHT - TOP - BOTTOM) * (y - low) / (high - low)
        return round(LEFT + across, 1), round(HEIGHT - BOTTOM - up, 1)

    parts = [f'<text class="title" x="{LEFT}" y="22">{title}</text>']
    for y in ticks(low, high):
        _, at = place(min(xs), y)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>'
                     f'<text x="{LEFT - 8}" y="{at + 4}" text-anchor="end">{y:g}</text>')
    for x in ticks(min(xs), max(xs)):
        at, _ = place(x, low)
        parts.append(f'<text x="{at}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{x:g}</text>')
    base = HEIGHT - BOTTOM
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{base}" y2="{base}"/>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">{x_name}</text>')
    parts.append(f'<text x="16" y="{(TOP + base) / 2}" text-anchor="middle" '
                 f'transform="rotate(-90 16 {(TOP + base) / 2})">{y_name}</text>')
    ends: list[float] = []
    for colour, (name, points) in zip(COLOURS, curves.items()):
        placed = [place(*point) for point in points]
        parts.append(f'<polyline class="line {colour}" points="' + " ".join(f"{x},{y}" for x, y in placed) + '"/>')
        parts += [f'<circle class="dot {colour}" cx="{x}" cy="{y}" r="3"/>' for x, y in placed[1:]]
        x, y = placed[-1]
        y += 4 if all(abs(y - other) > 16 for other in ends) else 20
        ends.append(y)
        parts.append(f'<text class="name {colour}" x="{x + 8}" y="{y}">{names.get(name, name)}</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'aria-label="{title}: {y_name} over {x_name}">\n<style>\n{STYLE}</style>\n' + "\n".join(parts) + "\n</svg>\n")
