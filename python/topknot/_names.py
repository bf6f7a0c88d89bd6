# SPDX-License-Identifier: Apache-2.0
"""Models as torch.compile() wraps them, which puts a word before the names of all parameters."""

import torch


def without_wrapper(model: torch.nn.Module) -> torch.nn.Module:
    """What torch.compile() was given, where `model` is what it has made."""
    return getattr(model, "_orig_mod", model)
