"""StandIn: what a worker is started with, so that PyTorch's own CUDA code runs without a card.

It does not import torch: what torch was built for is written in its ``version.py``.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import cache

from ..errors import UsageMistake
from .stand_in.building import Built, CannotBuild, built_libraries
from .stand_in.environment import cuda_version_of_torch


@dataclass(frozen=True, slots=True)
class StandIn:
    """The libraries in place of CUDA's."""

    libraries: Built

    @property
    def header(self) -> str:
        """By what estimates are made, for the header of a session."""
        return f"by PyTorch's own code for CUDA {cuda_version_of_torch()}"


@cache
def find_stand_in() -> StandIn:
    """What workers are started with. Raises ``UsageMistake`` with what is missing and what to do."""
    if cuda_version_of_torch() is None:
        raise UsageMistake("torch is a build without CUDA")
    try:
        os.getcwd().encode()
    except UnicodeEncodeError:  # bytes without a character in the locale
        why_not = "PyTorch needs names of files in UTF-8, and this folder's is not"
        raise UsageMistake(f"{why_not}: rename it, or set PYTHONUTF8=1") from None
    try:
        return StandIn(built_libraries(os.environ, say=_say))
    except CannotBuild as error:
        raise UsageMistake(str(error)) from None


def _say(line: str) -> None:
    """Print that the compiler runs, which takes seconds; pytest has not begun to print yet."""
    print(f"membudget: {line}", file=sys.stderr, flush=True)
