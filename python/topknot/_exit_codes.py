# SPDX-License-Identifier: Apache-2.0
"""What the process of a rank ends with, for whoever starts it again."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator

import torch.distributed as dist

from topknot import _core
from topknot._session import raise_failures

# Those of the command, docs/errors.md. The first that fits counts.
_CODES = (
    (_core.ConfigError, 2),
    (_core.DisagreementError, 64),
    (_core.LinkError, 75),
    (_core.ContractError, 70),
)
# A launcher ends the other ranks once the first has ended: all are to say why before that.
_SECONDS_TO_SPEAK = 0.5


@contextlib.contextmanager
def exit_codes() -> Iterator[None]:
    """Around the training of a script. Where a peer is lost, where ranks disagree or where Topknot refuses
    something, the rank prints one line, `topknot: rank 1: ...`, and its process ends at once with the
    code that the command would end with: 75 for a lost peer, which is worth another try. Other
    exceptions pass.

        with topknot.exit_codes():
            train()
    """
    try:
        yield
    except Exception as error:
        cause = _cause_of(error)
        if cause is None:
            raise
        _end(cause)


def _cause_of(error: Exception) -> Exception | None:
    if isinstance(error, _core.Error):
        return error
    try:  # backward() of DDP raises a RuntimeError where its hook failed
        raise_failures()
    except _core.Error as failure:
        return failure
    return None


def _end(error: Exception) -> None:
    rank = dist.get_rank() if dist.is_initialized() else int(os.environ.get("RANK", "0"))
    sys.stdout.flush()
    sys.stderr.flush()
    os.write(2, f"topknot: rank {rank}: {error}\n".encode())  # in one piece
    if isinstance(error, _core.LinkError):
        time.sleep(_SECONDS_TO_SPEAK)
    # Without torch's farewell, which may wait for ranks that are lost.
    os._exit(next(code for kind, code in _CODES if isinstance(error, kind)))
