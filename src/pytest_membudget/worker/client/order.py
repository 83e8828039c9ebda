"""What a worker is started for, and the variables that its process gets."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ...devices.fake.cluster.shown_backend import LAUNCHERS
from ...devices.stand_in.building import Built
from ...devices.stand_in.environment import stand_in_environment
from ...hardware.gpus import find_gpu

#: What makes a worker's device, ``module:function`` of the order.
VIRTUAL = "pytest_membudget.devices.fake.device:made_for"
STAND_IN = "pytest_membudget.devices.stand_in.device:made_for"
CUDA = "pytest_membudget.devices.real.device:made_for"
#: The backends between several cards.
CUDA_GROUP = LAUNCHERS
#: The allocator's own functions are local symbols, which the default mode cannot name (torch 2.11).
SYMBOLS: Final = {"TORCH_SYMBOLIZE_MODE": "fast"}


#: The keys of all tests of a file, for files of which a session has collected all.
Collected = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker is started for: the session to repeat, and the files to collect in it."""

    args: Sequence[str]
    """pytest's command line."""
    dir: str
    """The folder that pytest was started in."""
    files: Sequence[str]
    gpu: str
    """The card that is there while modules are imported."""
    timeout: float
    """Seconds for the start, and for each test."""
    records: bool = False
    """Whether it records what snapshots need."""
    device: str = VIRTUAL
    """What makes its device."""
    libraries: Built | None = None
    """Of the stand-in."""
    cards: int = 1
    """How many cards a process sees on the stand-in."""
    observes: bool = False
    """Whether it reports what its tests have read, for the cache of estimates."""
    processes: int = 1
    """How many of its tests may run at once."""
    backend: str = CUDA_GROUP
    """Between cards that are measured on; with nccl each rank has a CUDA device, with ``gloo`` not."""

    def to_json(self) -> dict[str, Any]:
        """What its process reads of it, in plain JSON types."""
        names = ("dir", "gpu", "timeout", "records", "device", "observes", "processes", "backend")
        lists = {"args": list(self.args), "files": list(self.files)}
        return {**lists, **{name: getattr(self, name) for name in names}}

    collected: Collected = field(default_factory=dict)
    """What the session has collected itself."""


def worker_environment(order: Order, scratch: str) -> dict[str, str]:
    """The variables of a worker for ``order``, whose files for the time being lie in ``scratch``."""
    if order.device == VIRTUAL:
        return {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    if order.libraries is not None:
        environment = {**SYMBOLS, **os.environ}
        card = find_gpu(order.gpu)
        return stand_in_environment(
            order.libraries, card, order.cards, environment, unlimited=True, scratch=scratch
        )
    # asking whether CUDA is there must not wake the driver, which does not survive a fork
    return {**SYMBOLS, **os.environ, "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
