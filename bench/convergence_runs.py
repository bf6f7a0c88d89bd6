# SPDX-License-Identifier: Apache-2.0
"""The runs of bench/convergence.py: jobs, variants, and in which order they are made."""

import dataclasses
import fnmatch
from typing import Callable, Iterator

# What every run has. Nothing of the last line changes the result of a run.
COMMON = {
    "workers": "4", "density": "0", "density_schedule": "constant",
    "timeout": "600", "checkpoint_every": "250",
}
FEWER = 64  # dense with the bytes of knot takes 1/64 of the steps


@dataclasses.dataclass(frozen=True)
class Job:
    name: str  # of a file in jobs/
    steps: int
    rates: tuple[float, float, float]
    seconds: int  # of one run on two idle cores, about
    settings: dict[str, str]
    warmup: float = 0  # epochs
    variants: tuple[str, ...] = ()  # all unless given


@dataclasses.dataclass(frozen=True)
class Variant:
    about: str
    settings: dict[str, str]
    jobs: tuple[str, ...] = ()  # all unless given
    fewer_steps: bool = False


JOBS = {
    "ncf": Job("ncf-movielens-small", 7281, (0.004, 0.008, 0.016), 60, {"epochs": "3"}),
    "an4": Job("lstm-an4-small", 720, (0.001, 0.002, 0.004), 110, {"epochs": "30"}, warmup=1),
    "quickstart": Job("quickstart", 1404, (0.025, 0.05, 0.1), 75, {}),
    "wikitext2": Job("lstm-wikitext2-small", 600, (0.002, 0.004, 0.008), 200,
                     {"steps": "600"}, warmup=0.02),
    "wikitext2-long": Job("lstm-wikitext2-small", 1500, (0.002, 0.004, 0.008), 500,
                          {"steps": "1500"}, warmup=0.02, variants=("dense", "knot")),
    "resnet20": Job("resnet20-cifar10", 780, (0.05, 0.1, 0.2), 230,
                    {"epochs": "2", "lr_schedule": "cosine"}, warmup=0.1),
    "bert": Job("bert-wikipedia-small", 500, (0.0005, 0.001, 0.002), 240,
                {"epochs": "2", "steps": "500"}, warmup=0.03),
}


def every_step(density: float = 0.01, **settings: str) -> dict[str, str]:
    """`knot` in f32 on every step."""
    return {"scheme": "knot", "exchange": "updates", "density": f"{density:g}", **settings}


def budget(share: int) -> Variant:
    return Variant(f"`knot` with the budget 1/{share}", {"scheme": "knot", "budget": f"{1 / share:g}"})


def published(scheme: str) -> Variant:
    return Variant(f"`{scheme}` at 1 %, gradients, as in its paper",
                   {"scheme": scheme, "exchange": "gradients", "density": "0.01"})


def with_updates(scheme: str) -> Variant:
    return Variant(f"`{scheme}` with updates and the default budget",
                   {"scheme": scheme, "exchange": "updates", "budget": f"{1 / 64:g}"})


DENSE = {"scheme": "dense", "exchange": "gradients"}
SGD, ADAM = ("resnet20", "quickstart"), ("ncf", "wikitext2", "an4", "bert")
VARIANTS = {
    "dense": Variant("everything is exchanged", DENSE),
    "knot": Variant("`knot`, nothing else set: the default", {"scheme": "knot"}),
    "knot-1pct": Variant("`knot` at 1 % on every step, updates in f32", every_step()),
    "knot-gradients": Variant("`knot` at 1 % with the optimizer behind the exchange",
                              {"scheme": "knot", "exchange": "gradients", "density": "0.01"}),
    "oktopk": published("oktopk"),
    "gtopk": published("gtopk"),
    "exdyna": published("exdyna"),
    "adtopk": published("adtopk"),
    "topka": published("topka"),
    "oktopk-updates": with_updates("oktopk"),
    "gtopk-updates": with_updates("gtopk"),
    "exdyna-updates": with_updates("exdyna"),
    "knot-b32": budget(32),
    "knot-b128": budget(128),
    "knot-b256": budget(256),
    "dense-rounds": Variant("`dense` every 4 steps, updates: the cost of local steps alone",
                            {"scheme": "dense", "exchange": "updates", "local_steps": "4",
                             "density": "1"}),
    "knot-settled": Variant("`knot`, residuals are settled at the end",
                            {"scheme": "knot", "settle": "end"}),
    "knot-no-clip": Variant("`knot`, no clipping", {"scheme": "knot", "clip": "0"},
                            ("wikitext2", "an4")),
    "knot-1pct-no-masking": Variant(
        "`knot-1pct`, the momentum stays where a coordinate was settled",
        every_step(memory="momentum:momentum=0.9,masking=0"), SGD),
    "knot-1pct-adam-no-masking": Variant(
        "`knot-1pct`, Adam's mean stays where a coordinate was settled",
        every_step(memory="adam:masking=0"), ADAM),
    "knot-1pct-adam-no-gain": Variant(
        "`knot-1pct`, Adam's rate not corrected for the number of ranks",
        every_step(memory="adam:gain=none"), ADAM),
    "knot-1pct-settled": Variant("`knot-1pct`, residuals are settled at the end",
                                 every_step(settle="end")),
    **{f"{name}-p{ranks}": Variant(
        f"`{name}` on {ranks} workers, the same samples in a step",
        {**settings, "workers": str(ranks), "batch": str(4 * batch // ranks)}, (job,))
       for job, batch in (("ncf", 512),)
       for ranks in (2, 8)
       for name, settings in (("dense", DENSE), ("knot", {"scheme": "knot"}),
                              ("oktopk", published("oktopk").settings))},
    "dense-fewer-steps": Variant(f"`dense` with about the bytes of `knot`: 1/{FEWER} of the steps",
                                 DENSE, fewer_steps=True),
    "epoch-average": Variant(
        "no exchange; the weights are averaged at the end of an epoch",
        {**DENSE, "local_steps": "1000000", "outer": "sgd", "outer_lr": "1"},
        ("resnet20", "ncf", "wikitext2", "bert")),
}


@dataclasses.dataclass(frozen=True)
class Run:
    job: str
    variant: str
    lr: float
    seed: int

    @property
    def name(self) -> str:
        return f"{self.job}/{self.variant}-lr{self.lr:g}-seed{self.seed}"

    def settings(self) -> list[str]:
        """The whole list of --set; two runs with the same one are the same run."""
        job, variant = JOBS[self.job], VARIANTS[self.variant]
        keys = {**COMMON, **job.settings}
        if job.warmup:
            keys["warmup"] = f"{job.warmup:g}"
        if variant.fewer_steps:
            keys["steps"] = str(round(job.steps / FEWER))
            if job.warmup:
                keys["warmup"] = f"{job.warmup / FEWER:g}"
        keys.update(variant.settings)
        keys.update(lr=f"{self.lr:g}", seed=str(self.seed))
        return [f"{key}={value}" for key, value in keys.items()]

    def matches(self, patterns: list[str]) -> bool:
        return not patterns or any(
            pattern in self.name or fnmatch.fnmatch(self.name, pattern) for pattern in patterns)


# The most telling first: variants, at which rates, with which seeds. A rate is "middle" or
# "all" of the job's, "far", a quarter and four times the middle, or the best of the variants that
# are named, which is known once these have run.
STAGES = [
    (["dense", "knot"], "middle", [1, 2, 3]),
    (["knot-1pct"], "middle", [1]),
    (["dense", "knot"], "all", [1]),
    (["dense"], "best of dense", [2, 3]),
    (["knot"], "best of knot", [2, 3]),
    (["dense-rounds", "epoch-average", "dense-fewer-steps"], "best of dense", [1]),
    (["knot-b128", "knot-b256", "knot-b32", "knot-settled", "knot-no-clip"], "best of knot", [1]),
    (["knot-gradients", "oktopk", "gtopk", "exdyna"], "best of dense knot", [1]),
    (["oktopk-updates", "gtopk-updates", "exdyna-updates"], "best of knot dense", [1]),
    (["knot-1pct-no-masking", "knot-1pct-adam-no-masking", "knot-1pct-adam-no-gain",
      "knot-1pct-settled"], "best of knot", [1]),
    (["adtopk", "topka"], "best of dense knot", [1]),
    (["dense-p2", "dense-p8", "oktopk-p2", "oktopk-p8"], "best of dense", [1]),
    (["knot-p2", "knot-p8"], "best of knot", [1]),
    (["dense", "knot", "oktopk"], "far", [1]),
]


def plan(best_rate: Callable[[str, str], float | None]) -> Iterator[Run | str]:
    """All runs in order. In the place of runs whose rate is not known yet stands a text
    "JOB/VARIANT" that says for which. best_rate(job, variant) may be None."""
    seen = set()
    for variants, rates, seeds in STAGES:
        for job in JOBS:
            for variant in variants:
                if not is_planned(job, variant):
                    continue
                for lr in rates_of(job, rates, best_rate):
                    for seed in seeds:
                        one = f"{job}/{variant}" if lr is None else Run(job, variant, lr, seed)
                        if one not in seen:
                            seen.add(one)
                            yield one


def is_planned(job: str, variant: str) -> bool:
    jobs, variants = VARIANTS[variant].jobs, JOBS[job].variants
    return (not jobs or job in jobs) and (not variants or variant in variants)


def rates_of(job: str, rates: str, best_rate) -> list[float | None]:
    if rates == "middle":
        return [JOBS[job].rates[1]]
    if rates == "all":
        return list(JOBS[job].rates)
    if rates == "far":
        return [JOBS[job].rates[1] / 4, JOBS[job].rates[1] * 4]
    variants = rates.removeprefix("best of ").split()
    return list(dict.fromkeys(best_rate(job, variant) for variant in variants))
