# SPDX-License-Identifier: Apache-2.0
"""Tables and pictures of what bench/convergence.py has measured."""

import collections
import pathlib
import statistics

from convergence_records import Records, lower_is_better
from convergence_runs import JOBS, VARIANTS
from table import put

DRAWN = ["dense", "knot", "knot-1pct", "knot-gradients", "oktopk", "gtopk", "exdyna", "adtopk", "topka"]
COLOURS = ["black", "tab:red", "tab:pink", "tab:orange", "tab:blue", "tab:green", "tab:purple", "tab:cyan",
           "tab:brown"]
EVALUATIONS = 5  # a picture has the metric where there are as many, else the training loss
# How far behind dense a run may end: points of a share, or per cent of a perplexity.
LIMITS = {"accuracy": 0.5, "HR@10": 0.5, "word error rate": 2.0, "perplexity": 2.0}


class Rows:
    """The records of one job by variant and rate."""

    def __init__(self, records: Records, job: str):
        self.job = job
        self.groups = collections.defaultdict(dict)
        for one in records.of_job(job):
            self.groups[one["variant"], one["lr"]][one["seed"]] = one
        self.best = {name: self.best_rate(name) for name in VARIANTS}

    def best_rate(self, variant: str) -> float | None:
        """Of those at hand, by their first seed."""
        rates = {lr: group[min(group)] for (name, lr), group in self.groups.items()
                 if name == variant and group[min(group)]["metric"]["value"] is not None}
        if not rates:
            return None
        sign = 1 if lower_is_better(self.metric()) else -1
        return min(rates, key=lambda lr: (sign * rates[lr]["metric"]["value"], lr))

    def edges(self, variant: str) -> list[float]:
        """The lowest and the highest rate, when it was run with several."""
        rates = sorted(lr for name, lr in self.groups if name == variant)
        return [rates[0], rates[-1]] if len(rates) > 1 else []

    def metric(self) -> str | None:
        names = [one["metric"]["name"] for group in self.groups.values() for one in group.values()]
        return next((name for name in names if name), None)

    def of(self, variant: str) -> dict:
        """Its runs at its best rate, by seed."""
        return self.groups.get((variant, self.best[variant]), {})

    def difference(self, group: dict) -> float | None:
        """Mean over the seeds that dense has too, at its best rate, of how much larger the
        metric is: in points, or in per cent for a perplexity."""
        pairs = [(one["metric"]["value"], self.of("dense")[seed]["metric"]["value"])
                 for seed, one in group.items() if seed in self.of("dense")]
        if not pairs or any(None in pair for pair in pairs):
            return None
        if self.metric() == "perplexity":
            return 100 * (statistics.fmean(a / b for a, b in pairs) - 1)
        return 100 * statistics.fmean(a - b for a, b in pairs)

    def share_of_dense(self, group: dict) -> str:
        """Of the bytes that a dense run of full length sends."""
        dense = next(iter(self.of("dense").values()), None)
        one = next(iter(group.values()))
        whole = dense["bytes"] if dense else one["dense_bytes_per_step"] * one["steps"]
        return f"1/{whole / one['bytes']:.1f}" if one["bytes"] else "nothing"


def metric_text(name: str | None, group: dict) -> str:
    values = [one["metric"]["value"] for one in group.values()]
    if None in values:
        return "not finite"
    digits = 1 if name == "perplexity" else 4
    text = f"{statistics.fmean(values):.{digits}f}"
    if len(values) > 1:
        text += f" +- {statistics.stdev(values):.{digits}f}"
    return text


def difference_text(name: str | None, difference: float | None) -> str:
    if difference is None:
        return "-"
    return f"{difference:+.1f} %" if name == "perplexity" else f"{difference:+.2f}"


def loss_text(group: dict) -> str:
    losses = [one["final_loss"] for one in group.values()]
    return "-" if None in losses else f"{statistics.fmean(losses):.4f}"


def job_table(records: Records, job: str) -> str:
    rows = Rows(records, job)
    if not rows.groups:
        return "No runs yet.\n"
    name = rows.metric()
    lines = [f"| variant | rate | seeds | {name} | against dense | training loss, last tenth | bytes |",
             "|---|---|---|---|---|---|---|"]
    for (variant, lr), group in rows.groups.items():
        best = lr == rows.best[variant]
        against = difference_text(name, rows.difference(group))
        if variant == "dense" and best:
            against = "-"
        rate = f"**{lr:g}**" if best else f"{lr:g}"
        seeds = ", ".join(map(str, sorted(group)))
        lines.append(f"| `{variant}` | {rate} | {seeds} | {metric_text(name, group)} | {against} | "
                     f"{loss_text(group)} | {rows.share_of_dense(group)} |")
    steps = max(one["steps"] for group in rows.groups.values() for one in group.values())
    text = f"`{JOBS[job].name}`, {steps} steps.\n\n" + "\n".join(lines) + "\n"
    for variant in ("dense", "knot"):
        if rows.best[variant] in rows.edges(variant):
            text += f"\nThe best rate of `{variant}` is at the edge of those tried.\n"
    return text


def summary_table(records: Records) -> str:
    """Dense and knot, each at its best rate."""
    lines = ["| job | metric | dense | knot | difference | may be | bytes |",
             "|---|---|---|---|---|---|---|"]
    for job in JOBS:
        rows = Rows(records, job)
        dense, knot, name = rows.of("dense"), rows.of("knot"), rows.metric()
        if not dense or not knot:
            continue
        limit = LIMITS.get(name, 0) * (1 if lower_is_better(name) else -1)
        lines.append(f"| {job} | {name} | {metric_text(name, dense)} | {metric_text(name, knot)} | "
                     f"{difference_text(name, rows.difference(knot))} | "
                     f"{difference_text(name, limit)} | {rows.share_of_dense(knot)} |")
    return "\n".join(lines) + "\n" if len(lines) > 2 else "No runs yet.\n"


def variants_table() -> str:
    lines = ["| variant | is |", "|---|---|"]
    return "\n".join(lines + [f"| `{name}` | {one.about} |" for name, one in VARIANTS.items()]) + "\n"


def tables(records: Records) -> dict[str, str]:
    return {"variants": variants_table(), "summary": summary_table(records),
            **{job: job_table(records, job) for job in JOBS}}


def print_tables(records: Records) -> None:
    for name, text in tables(records).items():
        print(f"## {name}\n\n{text}")


def marked_tables(records: Records, page: pathlib.Path) -> dict[str, str]:
    """By mark in the page, each with its picture."""
    marked = {}
    for name, table in tables(records).items():
        picture = f"pictures/convergence-{name}.svg"
        if (page.parent / picture).exists():
            table += f"\n![{name}: over steps and over bytes]({picture})\n"
        marked[f"convergence: {name}"] = table
    return marked


def write_tables(records: Records, page: pathlib.Path) -> None:
    text = page.read_text()
    for mark, table in marked_tables(records, page).items():
        text = put(page, text, mark, table)
    page.write_text(text)


# ---- pictures


def points_of(record: dict, metric: bool) -> tuple[list, list, list]:
    """Steps, bytes and values; a step without a finite loss is left out."""
    points = record["evaluations"] if metric else record["curve"]
    points = [point for point in points if point[1] is not None]
    return ([point[0] for point in points], [point[-1] for point in points],
            [point[1] for point in points])


def draw(records: Records, folder: pathlib.Path) -> None:
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("convergence: --plots needs matplotlib, which scripts/setup puts into "
                         ".venv: run this by .venv/bin/python.")
    matplotlib.use("svg")
    # The same bytes for the same records; text stays text, not paths.
    matplotlib.rcParams.update({"svg.hashsalt": "topknot", "svg.fonttype": "none", "font.size": 9})
    folder.mkdir(parents=True, exist_ok=True)
    for job in JOBS:
        rows = Rows(records, job)
        if rows.groups:
            draw_job(rows, folder / f"convergence-{job}.svg")


def draw_job(rows: Rows, path: pathlib.Path) -> None:
    from matplotlib import pyplot

    shown = {name: group[min(group)] for name in DRAWN if (group := rows.of(name))}
    metric = all(len(one["evaluations"]) >= EVALUATIONS for one in shown.values())
    figure, panels = pyplot.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
    for name, one in shown.items():
        steps, sent, values = points_of(one, metric)
        colour = COLOURS[DRAWN.index(name)]
        width = 1.8 if name in ("dense", "knot") else 1
        for panel, where in zip(panels, (steps, sent)):
            panel.plot(where, values, label=name, color=colour, linewidth=width)
    panels[0].set(xlabel="steps", ylabel=rows.metric() if metric else "training loss")
    panels[1].set(xlabel="bytes sent by the busiest worker", xscale="log")
    panels[1].legend(frameon=False, fontsize=8)
    for panel in panels:
        panel.grid(alpha=0.3)
    figure.suptitle(JOBS[rows.job].name)
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
