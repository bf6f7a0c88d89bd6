# SPDX-License-Identifier: Apache-2.0
"""Whether all ranks ask for the same, told field by field."""

from collections.abc import Iterable, Mapping, Sequence

import torch

from topknot import _core

_MOST_SENTENCES = 50
_MOST_SIDES = 8  # in one sentence
_LONGEST_TEXT = 200  # of a value, in a sentence


def require_equal(fields: Sequence[Mapping[str, str]]) -> None:
    """Raises DisagreementError, on all ranks alike, unless all ranks have the same fields."""
    sentences = differences(fields)
    if sentences:
        raise _core.DisagreementError("\n".join(sentences))


def differences(fields: Sequence[Mapping[str, str]]) -> list[str]:
    """A sentence for each field that is not the same on all ranks: what the fewest have
    comes first; of equals, rank 0's last."""
    sentences = []
    for name in dict.fromkeys(name for one in fields for name in one):
        ranks: dict[str, list[int]] = {}
        for rank, one in enumerate(fields):
            ranks.setdefault(one.get(name, "(none)") or "(empty)", []).append(rank)
        if len(ranks) > 1:
            sides = sorted(ranks.items(), key=lambda side: (len(side[1]), side[1][0] == 0, side[1]))
            sentences.append(_sentence(name, sides))
    more = len(sentences) - _MOST_SENTENCES
    if more > 0:
        sentences[_MOST_SENTENCES:] = [f"The ranks differ in {more} more fields."]
    return sentences


def _sentence(name: str, sides: Sequence[tuple[str, list[int]]]) -> str:
    shown = [
        f"{_name_ranks(ranks)} {'has' if len(ranks) == 1 else 'have'} "
        + (f"{_short(name)} = " if number == 0 else "")
        + _short(value)
        for number, (value, ranks) in enumerate(sides)
    ]
    if len(shown) > _MOST_SIDES + 1:
        shown[_MOST_SIDES:-1] = [f"{len(shown) - _MOST_SIDES - 1} more differ"]
    return ", ".join(shown) + "."


def _short(text: str) -> str:
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "..."


def _name_ranks(ranks: Iterable[int]) -> str:
    names = [str(rank) for rank in ranks]
    if len(names) == 1:
        return f"rank {names[0]}"
    if len(names) > _MOST_SIDES:
        return f"{len(names)} ranks from {names[0]} to {names[-1]}"
    return f"ranks {', '.join(names[:-1])} and {names[-1]}"


def shapes(parameters: Iterable[tuple[str, torch.Tensor]]) -> dict[str, str]:
    """Fields for parameters by name."""
    return {
        f"shape of {name}": "x".join(map(str, parameter.shape)) or "one number"
        for name, parameter in parameters
    }
