"""Chooses the device of estimates: the stand-in if it can run, else fake tensors.

It does not import torch: what torch was built for is written in its ``version.py``.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import cache

from ..errors import UsageMistake
from ..hardware.gpus import Gpu
from ..names import FAKE, STAND_IN
from .stand_in.building import Built, CannotBuild, built_libraries
from .stand_in.environment import cuda_version_of_torch


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """A device for estimates, and why it was chosen."""

    name: str
    """``stand-in`` or ``fake``."""
    why: str
    """The reason, for the header of a session."""
    libraries: Built | None = None
    """The folder of the stand-in's libraries."""

    def for_card(self, gpu: Gpu) -> DeviceChoice:
        """This device, or fake tensors for a card that the stand-in cannot model."""
        if self.name == FAKE or gpu.backend == "cuda":
            return self
        return DeviceChoice(FAKE, f"by fake tensors: {gpu.name} is no card of NVIDIA's")


def choose_device(asked: str) -> DeviceChoice:
    """The device for ``asked``, one of ``config.DEVICES``.

    Raises ``UsageMistake`` where the stand-in is asked for and cannot run here.
    """
    if asked == FAKE:
        return DeviceChoice(FAKE, "by fake tensors, as asked for")
    libraries, why_not = _stand_in()
    if libraries is not None:
        return DeviceChoice(STAND_IN, f"by PyTorch's own code for CUDA {cuda_version_of_torch()}", libraries)
    if asked == STAND_IN:
        raise UsageMistake(f"the stand-in cannot run here: {why_not}; write --membudget-device=fake, or auto")
    return DeviceChoice(FAKE, f"by fake tensors: {why_not}")


@cache
def _stand_in() -> tuple[Built | None, str]:
    """The stand-in's libraries, or why there are none and what to do."""
    if cuda_version_of_torch() is None:
        return None, "torch is a build without CUDA; a CUDA build, which needs no GPU, gives exact figures"
    try:
        os.getcwd().encode()
    except UnicodeEncodeError:  # bytes without a character in the locale
        why_not = "PyTorch needs names of files in UTF-8, and this folder's is not"
        return None, f"{why_not}: rename it, or set PYTHONUTF8=1"
    try:
        return built_libraries(os.environ, say=_say), ""
    except CannotBuild as error:
        return None, str(error)


def _say(line: str) -> None:
    """Print that the compiler runs, which takes seconds; pytest has not begun to print yet."""
    print(f"membudget: {line}", file=sys.stderr, flush=True)
