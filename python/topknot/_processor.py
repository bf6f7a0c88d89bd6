# SPDX-License-Identifier: Apache-2.0
"""Processors that announce instructions which they do not grant, as some virtual machines do.

torch believes the announcement, and its first product of bf16 matrices ends the process by
SIGILL. oneDNN, which computes it, can be told to do without, before it is first used.
"""

import os
import warnings
from collections.abc import Callable

from topknot import _core

VARIABLE = "ONEDNN_MAX_CPU_ISA"
WITHOUT_AMX = "AVX2"


def limit_onednn(amx_is_refused: Callable[[], bool] = _core.amx_is_refused) -> None:
    """Sets the variable where AMX is announced and refused, unless the user has set it."""
    if VARIABLE in os.environ or "DNNL_MAX_CPU_ISA" in os.environ or not amx_is_refused():
        return
    os.environ[VARIABLE] = WITHOUT_AMX
    warnings.warn(
        "This processor announces AMX but does not grant it, and torch would die of SIGILL in bf16: "
        f"topknot has set {VARIABLE}={WITHOUT_AMX}. If torch has computed anything before, set "
        "it in the environment instead.",
        RuntimeWarning,
        stacklevel=2,
    )


def explain_illegal_instructions() -> None:
    """A process that dies of SIGILL prints first what to set."""
    _core.say_at_sigill(
        "topknot: The processor does not grant an instruction that it announces, and torch has "
        f"used it: set {VARIABLE}={WITHOUT_AMX} in the environment and run this again.\n"
    )
