# SPDX-License-Identifier: Apache-2.0
"""Ranks under torchrun that are stopped and killed.

TOPKNOT_KILLS=200 makes so many runs of each signal (2), and allows 2 s beyond the deadline instead of 10.
"""

import os
import subprocess
import sys

from conftest import ROOT, environment

KILLS = ROOT / "tests" / "faults" / "kills.py"


def test_a_rank_that_is_stopped_or_killed_is_named_by_all_others_in_time(python):
    runs = os.environ.get("TOPKNOT_KILLS")
    reader = ROOT / "build" / "release" / "tests" / "faults" / "reduce_forever"
    done = subprocess.run(
        [sys.executable, KILLS, runs or "2", "2" if runs else "10", "torchrun", python,
         *([reader] if reader.exists() else [])],
        env=environment(), capture_output=True, text=True,
    )  # fmt: skip
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
