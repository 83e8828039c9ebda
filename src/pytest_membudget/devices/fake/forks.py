"""Processes that a test forks: CUDA, once in use, does not survive a fork; nor does the virtual device."""

from __future__ import annotations

import os
from typing import Any, NoReturn

from ...tracking.ledger import Ledger


def refuse_in_forks(ledger: Ledger) -> None:
    """Let allocations in processes forked from here on fail as torch's do, if this one has made any by then.

    Else nobody would count what they take, and the test would go on as it does on no GPU.
    """

    def forked() -> None:
        if ledger.births:
            child: Any = ledger
            child.born = _refuse

    os.register_at_fork(after_in_child=forked)


def _refuse(*_: object) -> NoReturn:
    # torch.cuda._lazy_init, 2.13
    raise RuntimeError(
        "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the "
        "'spawn' start method"
    )
