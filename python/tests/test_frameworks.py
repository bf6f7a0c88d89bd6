# SPDX-License-Identifier: Apache-2.0
"""The adapters, where their frameworks are installed beside torch (scripts/setup)."""

import importlib.util

import pytest


@pytest.mark.parametrize("name", ["lightning", "accelerate", "transformers"])
def test_a_framework_trains_and_resumes_as_it_does_without(ranks, name):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed: scripts/setup installs it where pip can get it")
    ranks(2, "framework_cases.py", f"{name}_holds_what_it_promises")
