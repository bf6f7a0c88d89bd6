#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes jobs/slurm/ and jobs/pbs/: a comparison of six schemes for each paper's job.

    scripts/cluster_jobs.py COMMAND [--check]

The scripts are what `topknot compare --print-sbatch` and `--print-pbs` print, but for the
command, which they look for. With --check it only says which of them are not current.
"""

import re
import subprocess
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parent.parent
JOBS = ("vgg16-cifar10", "resnet20-cifar10", "vgg16-cifar100", "lstm-an4", "lstm-wikitext2",
        "bert-wikipedia", "ncf-movielens")
SCHEMES = "dense,topka,topkdsa,gtopk,gaussiank,oktopk"
FLAGS = {"slurm": "--print-sbatch", "pbs": "--print-pbs"}
COMMAND = '"${TOPKNOT:=$(command -v topknot || echo "$PWD/build/release/topknot")}"'
SUBMIT = {"slurm": "sbatch", "pbs": "qsub"}


def script(command, job, scheduler):
    text = subprocess.run(
        [command, "compare", job, "--scheme", SCHEMES, "--data", "$HOME/data", "--out",
         f"runs/{job}", FLAGS[scheduler]], capture_output=True, text=True, check=True).stdout
    text = re.sub(r'"\$\{TOPKNOT:=[^\n]*\}"', lambda _: COMMAND, text, count=1)
    summary = (TREE / "jobs" / f"{job}.toml").read_text().splitlines()[1].lstrip("# ")
    first, rest = text.split("\n", 1)
    return (f"{first}\n# SPDX-License-Identifier: Apache-2.0\n# {summary}\n"
            f"#   {SUBMIT[scheduler]} jobs/{scheduler}/{job}.sh    from the root of the tree\n"
            f"# Made by scripts/cluster_jobs.py; docs/cluster.md\n{rest}")


def main():
    command, check = sys.argv[1], "--check" in sys.argv[2:]
    stale = []
    for scheduler in FLAGS:
        for job in JOBS:
            file = TREE / "jobs" / scheduler / f"{job}.sh"
            text = script(command, job, scheduler)
            if file.exists() and file.read_text() == text:
                continue
            stale.append(str(file.relative_to(TREE)))
            if not check:
                file.parent.mkdir(exist_ok=True)
                file.write_text(text)
                file.chmod(0o755)
    if check and stale:
        sys.exit(f"cluster_jobs: not current: {', '.join(stale)}; run scripts/cluster_jobs.py "
                 "COMMAND.")


if __name__ == "__main__":
    main()
