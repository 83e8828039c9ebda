"""StandIn: what a worker is started with, so that PyTorch's own CUDA code runs without a card.

It does not import torch: what torch was built for is written in its ``version.py``.
"""

import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..errors import UsageMistake
from .stand_in.building import CannotBuild, built_libraries
from .stand_in.linked.libraries import linked_libraries
from .stand_in.machine_checks import why_it_cannot_run
from .torch_build.build import TorchBuild, environments_torch
from .torch_build.installed import workers_torch


@dataclass(frozen=True, slots=True)
class StandIn:
    """A CUDA build of torch, and the folder of the libraries in place of CUDA's."""

    libraries: Path
    torch: TorchBuild

    @property
    def header(self) -> str:
        """By what estimates are made, for the header of a session."""
        own = environments_torch()
        made_by = f"by the code of torch {self.torch.version}"
        if own is None or own.folder == self.torch.folder:
            return made_by
        return f"{made_by}, next to the environment's {own.version}"


@cache
def find_stand_in() -> StandIn:
    """What workers are started with. Raises ``UsageMistake`` with what is missing and what to do."""
    torch = workers_torch(os.environ)
    if (why_not := why_it_cannot_run(torch)) is not None:
        raise UsageMistake(why_not)
    try:
        libraries = built_libraries(os.environ, say=_say)
        linked_libraries(torch.folder / "torch", libraries, os.environ)  # or the first worker would fail
    except CannotBuild as error:
        raise UsageMistake(str(error)) from None
    return StandIn(libraries, torch)


def _say(line: str) -> None:
    """Print that the compiler runs, which takes seconds; pytest has not begun to print yet."""
    print(f"membudget: {line}", file=sys.stderr, flush=True)
