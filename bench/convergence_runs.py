# SPDX-License-Identifier: Apache-2.0
"""The runs of bench/convergence.py: jobs, variants, and in which order they are made."""

import dataclasses
import fnmatch
from typing import Callable, Iterator

# What every run has. Nothing of the last line changes the result of a run.
COMMON = {
    "workers": "4", "density": "0.01", "density_schedule": "constant",
    "timeout": "600", "checkpoint_every": "250",
}
FEWER = 40  # dense with the bytes of knot takes 1/40 of the steps


@dataclasses.dataclass(frozen=True)
class Job:
    name: str  # of a file in jobs/
    steps: int
    rates: tuple[float, float, float]
    seconds: int  # of one run on two idle cores, about
    settings: dict[str, str]
    warmup: float = 0  # epochs


@dataclasses.dataclass(frozen=True)
class Variant:
    about: str
    settings: dict[str, str]
    jobs: tuple[str, ...] = ()  # all unless given
    fewer_steps: bool = False


JOBS = {
    "resnet20": Job("resnet20-cifar10", 780, (0.05, 0.1, 0.2), 280,
                    {"epochs": "2", "lr_schedule": "cosine"}, warmup=0.1),
    "ncf": Job("ncf-movielens-small", 7281, (0.002, 0.004, 0.008), 70, {"epochs": "3"}),
    "wikitext2": Job("lstm-wikitext2-small", 1500, (0.002, 0.004, 0.008), 520,
                     {"steps": "1500"}, warmup=0.02),
    "an4": Job("lstm-an4-small", 1440, (0.001, 0.002, 0.004), 300, {"epochs": "60"}, warmup=1),
    "bert": Job("bert-wikipedia-small", 1500, (0.0005, 0.001, 0.002), 580,
                {"epochs": "2", "steps": "1500"}, warmup=0.03),
    "quickstart": Job("quickstart", 1404, (0.025, 0.05, 0.1), 90, {}),
}

UPDATES = {"exchange": "updates", "settle": "never"}
KNOT = {"scheme": "knot", **UPDATES}


def published(scheme: str) -> Variant:
    return Variant(f"`{scheme}`, gradients, as in its paper",
                   {"scheme": scheme, "exchange": "gradients"})


def with_updates(scheme: str) -> Variant:
    return Variant(f"`{scheme}` with updates", {"scheme": scheme, **UPDATES})


DENSE = {"scheme": "dense", "exchange": "gradients"}
VARIANTS = {
    "dense": Variant("everything is exchanged", DENSE),
    "knot": Variant("`knot` at 1 %, updates: the default", KNOT),
    "knot-gradients": Variant("`knot` with the optimizer behind the exchange",
                              {"scheme": "knot", "exchange": "gradients"}),
    "oktopk": published("oktopk"),
    "gtopk": published("gtopk"),
    "exdyna": published("exdyna"),
    "adtopk": published("adtopk"),
    "topka": published("topka"),
    "oktopk-updates": with_updates("oktopk"),
    "gtopk-updates": with_updates("gtopk"),
    "exdyna-updates": with_updates("exdyna"),
    "knot-d0.005": Variant("`knot` at 0.5 %", {**KNOT, "density": "0.005"}),
    "knot-d0.02": Variant("`knot` at 2 %", {**KNOT, "density": "0.02"}),
    "knot-d0.05": Variant("`knot` at 5 %", {**KNOT, "density": "0.05"}),
    "knot-no-masking": Variant(
        "`knot`, the momentum stays where a coordinate was settled",
        {**KNOT, "memory": "momentum:momentum=0.9,masking=0"}, ("resnet20",)),
    "knot-adam-no-masking": Variant(
        "`knot`, Adam's mean stays where a coordinate was settled",
        {**KNOT, "memory": "adam:masking=0"}, ("ncf", "wikitext2", "an4")),
    "knot-adam-no-gain": Variant("`knot`, Adam's rate not corrected for the number of ranks",
                                 {**KNOT, "memory": "adam:gain=none"}, ("ncf", "wikitext2")),
    "knot-settled": Variant("`knot`, residuals are settled at the end",
                            {**KNOT, "settle": "end"}, ("resnet20", "ncf", "wikitext2")),
    "knot-no-clip": Variant("`knot`, no clipping", {**KNOT, "clip": "0"}, ("wikitext2",)),
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
# "all" of the job's, or the best of the variants that are named, which is known once these have
# run.
STAGES = [
    (["dense", "knot"], "middle", [1]),
    (["dense", "knot"], "all", [1]),
    (["knot-gradients"], "best of dense knot", [1]),
    (["dense"], "best of dense", [2, 3]),
    (["knot"], "best of knot", [2, 3]),
    (["dense-fewer-steps", "epoch-average"], "best of dense", [1]),
    (["knot-no-masking", "knot-adam-no-masking", "knot-adam-no-gain", "knot-settled",
      "knot-no-clip"], "best of knot", [1]),
    (["oktopk", "gtopk", "exdyna"], "best of dense knot", [1]),
    (["oktopk-updates", "gtopk-updates", "exdyna-updates"], "best of knot dense", [1]),
    (["knot-d0.02", "knot-d0.05", "knot-d0.005"], "best of knot", [1]),
    (["adtopk", "topka"], "best of dense knot", [1]),
]


def plan(best_rate: Callable[[str, str], float | None]) -> Iterator[Run | str]:
    """All runs in order. In the place of runs whose rate is not known yet stands a text
    "JOB/VARIANT" that says for which. best_rate(job, variant) may be None."""
    seen = set()
    for variants, rates, seeds in STAGES:
        for job in JOBS:
            for variant in variants:
                if VARIANTS[variant].jobs and job not in VARIANTS[variant].jobs:
                    continue
                for lr in rates_of(job, rates, best_rate):
                    for seed in seeds:
                        one = f"{job}/{variant}" if lr is None else Run(job, variant, lr, seed)
                        if one not in seen:
                            seen.add(one)
                            yield one


def rates_of(job: str, rates: str, best_rate) -> list[float | None]:
    if rates == "middle":
        return [JOBS[job].rates[1]]
    if rates == "all":
        return list(JOBS[job].rates)
    variants = rates.removeprefix("best of ").split()
    return list(dict.fromkeys(best_rate(job, variant) for variant in variants))
