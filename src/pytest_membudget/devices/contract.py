"""Device: the contract of the devices that tests run on (the stand-in, a real card).

A run of one test, as a worker makes it::

    device = made_for(find_gpu("H100-80GB"))  # of ``real.device`` or ``stand_in.device``
    device.install()  # before torch is used
    ...  # the session's tests are collected; then in a child process for each test:
    device.begin(find_gpu("H100-80GB"), limited=True)
    kept = torch.empty(2**30, dtype=torch.uint8, device="cuda")
    device.body_ended()  # what is held now stays: 1 GiB
    report = device.end(metric="allocated", root=os.getcwd())
    assert report.peak["allocated"] == report.held.bytes == 2**30
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from ..caveats import HOW, Caveat
from ..hardware.gpus import Gpu
from ..memory_report import MemoryReport
from ..results.answer import Exchange, OtherRanks


class Device(ABC):
    """A CUDA device: ``install``, then for each test ``begin``, ``body_ended`` and ``end``."""

    #: its name in messages
    name: str
    #: whether it is a real card; reading it initializes the driver, which does not survive a fork
    is_there: bool = False

    @property
    def is_awake(self) -> bool:
        """Whether this process has initialized the driver, so that its children cannot use it."""
        return False

    @abstractmethod
    def install(self) -> None:
        """Make the device available to torch, before any code of the user is imported."""

    def become(self, gpu: Gpu, cards: int) -> None:
        """In a copy of the process that has installed it: be so many ``cards`` of the kind ``gpu``."""
        raise NotImplementedError

    def self_check(self) -> None:  # noqa: B027 - a real card has nothing to check
        """Raise ``UnsupportedTorch`` if a step with known figures gives others; the process must then end."""

    def card(self) -> dict[str, Any]:
        """The properties of the card, before a test runs."""
        return {}

    def follow_imports(self) -> None:  # noqa: B027 - a real card runs whatever was imported
        """Before a process is copied for a test: modules may have been imported since the last time."""

    @abstractmethod
    def imported_bytes(self) -> int:
        """Device memory that was allocated while modules were imported, and is still held."""

    def refused(self) -> list[str]:
        """Operations that were refused in this process and that a GPU would have run, each with its line."""
        return []

    @abstractmethod
    def begin(
        self, gpu: Gpu, *, limited: bool, rank: int = 0, world_size: int = 1, received: str = ""
    ) -> None:
        """Begin a test on ``gpu``. ``limited``: out of memory is raised where the card would.

        With a ``world_size`` above 1 the process is ``rank`` of as many, as under torchrun;
        ``received``: the ``broadcasts`` of ranks that ran before, as JSON by rank.
        """

    def vary(  # noqa: B027 - a real card has real data
        self, variant: int, steady: Sequence[str], *, figures_only: bool = False
    ) -> None:
        """Before ``begin``: answer what nobody knows as ``variant`` has it, but at the ``steady`` lines.

        ``figures_only``: leave out what memory is for, and where.
        """

    def unknown(self) -> list[str]:
        """After a test: why other variants may give it another figure; empty if none can."""
        return []

    def sizes(self) -> dict[int, int]:
        """After a test: by size in bytes, how many allocations of that size there were at once."""
        return {}

    def allocations(self) -> str:
        """After a test: a digest of its allocations, in order."""
        return ""

    def reads(self, root: str) -> list[str]:
        """The reads so far of what nobody knows, the most frequent first; paths are relative to ``root``."""
        return []

    def last_read(self) -> str:
        """The line of the last read of what nobody knows, as ``file:line``; empty without one."""
        return ""

    def body_ended(self, *, is_program: bool = False) -> None:  # noqa: B027 - it may have nothing to do
        """Note that the test's body has ended, and its fixtures have not.

        ``is_program``: it was a whole program, at whose end reference cycles hold nothing any more.
        """

    @abstractmethod
    def end(self, *, metric: str, root: str, records: bool = False) -> MemoryReport:
        """End the test and its fixtures, and return its report. ``root``: paths are relative to it.

        ``records``: keep what ``snapshot`` returns.
        """

    def snapshot(self) -> dict[str, Any] | None:
        """The run as ``torch.cuda.memory._snapshot`` has it; None without ``records`` or allocations."""
        return None

    def exchange(self) -> Exchange:
        """What this rank has sent to the others, and has received from them; nothing of one that is alone."""
        return Exchange()

    def other_ranks(self) -> OtherRanks:
        """After rank 0's run: which others must run."""
        return OtherRanks()


def context_caveats(gpu: Gpu, metric: str, *, limited: bool) -> list[Caveat]:
    """The caveat of the context's size: it is in the metric ``device``, and reduces what a card can hold."""
    return [Caveat(HOW, gpu.context_assumption)] if metric == "device" or limited else []
