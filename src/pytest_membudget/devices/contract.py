"""What a worker asks of the device that tests run on: the stand-in, fake tensors or a card that is there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ..caveats import Caveat
from ..hardware.gpus import Gpu
from ..memory_report import MemoryReport


class Device(ABC):
    """A CUDA device: ``install``, then for each test ``begin``, ``body_ended`` and ``end``."""

    #: as messages name it
    name: str
    #: whether asking for its card begins to use the driver, which does not survive a fork
    wakes_when_asked: bool = False
    #: whether it is a card of this machine
    is_there: bool = False

    @property
    def is_awake(self) -> bool:
        """Whether this process has begun to use the driver: no child of it can any more."""
        return False

    @abstractmethod
    def install(self) -> None:
        """From here on torch has the device; before anything of the user's is imported."""

    def self_check(self) -> None:  # noqa: B027 - a card that is there has nothing to check
        """Raise ``UnsupportedTorch`` if a step with known figures has others; for a process that ends."""

    def card(self) -> dict[str, Any]:
        """What there is to know of the card before a test runs."""
        return {}

    @abstractmethod
    def imported_bytes(self) -> int:
        """Device memory that was allocated while modules were imported, and is still held."""

    def refused(self) -> list[str]:
        """What was refused in this process that a GPU would have done, each with its place."""
        return []

    @abstractmethod
    def begin(
        self, gpu: Gpu, *, limited: bool, rank: int = 0, world_size: int = 1, rank0_broadcasts: str = ""
    ) -> None:
        """Begin a test on ``gpu``. ``limited``: out of memory is raised where the card would.

        With a ``world_size`` above 1 the process is ``rank`` of as many, as under torchrun;
        ``rank0_broadcasts`` is the result of rank 0's ``broadcasts``.
        """

    def body_ended(self) -> None:  # noqa: B027 - a device may have nothing to do
        """The test's body has ended, and its fixtures have not."""

    @abstractmethod
    def end(self, *, metric: str, root: str) -> MemoryReport:
        """The test has ended, its fixtures with it: what it took. ``root``: of the session's paths."""

    def snapshot(self) -> dict[str, Any] | None:
        """The run as ``torch.cuda.memory._snapshot`` has it; None without recording or allocations."""
        return None

    def representative_ranks(self) -> list[int]:
        """After rank 0's run: the further ranks whose figures must be known, so that the worst is."""
        return []

    def broadcasts(self) -> str:
        """After rank 0's run: what it has broadcast to the other ranks."""
        return ""

    def rank_caveats(self) -> list[Caveat]:
        """What is taken for granted of the ranks that are not run; none if there are none."""
        return []
