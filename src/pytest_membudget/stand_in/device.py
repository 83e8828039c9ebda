"""CUDA cards that are not there: PyTorch's own CUDA code runs, and its allocator says what it took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..gpus import Gpu, find_gpu
from ..measured.device import allocators_peaks
from ..measured.recorded_run import RecordedRun
from ..report import MemoryReport
from ..tracking.summary import memory_report
from .after_fork import allow_cuda_after_fork
from .environment import cards_text
from .libraries import StandInLibraries


def made_for(order: Mapping[str, Any]) -> StandInDevice:
    """The device of a worker's order."""
    return StandInDevice(find_gpu(order["gpu"]))


class StandInDevice:
    """The cards of one worker process, which is started for one kind and number of them."""

    #: as texts call it
    name = "the stand-in"
    #: what a test does to it is gone with the child process that runs the test
    is_awake = wakes_when_asked = False

    def __init__(self, gpu: Gpu) -> None:
        """``gpu``: the kind of card that the process was started for."""
        self.gpu = gpu
        self._libraries = StandInLibraries()
        self._run = RecordedRun()
        self._content: dict[str, Any] | None = None
        self._limited = False

    def install(self) -> None:
        """Record from the moment on at which CUDA is begun to be used: by an import, or by the test."""
        allow_cuda_after_fork()
        torch.cuda._lazy_call(self._run.begin)  # type: ignore[no-untyped-call]

    def card(self) -> dict[str, Any]:
        """What there is to know of it before a test runs."""
        return {}

    def imported_bytes(self) -> int:
        """Device memory that was allocated while modules were imported, and is still held."""
        return torch.cuda.memory_allocated() if torch.cuda.is_initialized() else 0

    def refused(self) -> list[str]:
        """What was refused in this process that a GPU would have done, each with its place."""
        return []

    def ran_short(self) -> bool:
        """Nobody else takes any of it."""
        return False

    def begin(self, gpu: Gpu, *, limited: bool, rank: int = 0, world_size: int = 1, heard: str = "") -> None:
        """A test begins on ``gpu``; ``limited``: PyTorch runs out of memory where the card would."""
        self._limited = limited
        self._libraries.set_cards(cards_text(gpu, self._libraries.card_count(), unlimited=not limited))
        torch.cuda.init()

    def end(self, *, metric: str, root: str) -> MemoryReport:
        """The test has ended: what it took."""
        recorded = self._run.end()
        self._content = recorded.snapshot
        return memory_report(
            recorded.ledger,
            metric=metric,
            context_bytes=self.gpu.context_bytes,
            root=root,
            assumptions=self._context(metric),
            not_modelled=self._libraries.not_modelled(),
            seconds=recorded.seconds,
            device="stand-in",
            peaks=allocators_peaks(recorded.stats, self.gpu.context_bytes),
        )

    def snapshot(self) -> dict[str, Any] | None:
        """The run as ``torch.cuda.memory._snapshot`` had it at its end."""
        return self._content

    def representative_ranks(self) -> list[int]:
        """After rank 0's run: the further ranks whose figures must be known, so that the worst is."""
        return []

    def said(self) -> str:
        """After rank 0's run: what it has told the other ranks."""
        return ""

    def rank_assumption(self) -> str:
        """What is taken for granted of the ranks that are no representatives; empty if there are none."""
        return ""

    def _context(self, metric: str) -> list[str]:
        """What a figure with the context in it, or a card's capacity without it, rests on."""
        return [self.gpu.context_assumption] if metric == "device" or self._limited else []
