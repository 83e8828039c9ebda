"""Device: what tests run on, the stand-in or a card of this machine, and what it says of the allocator.

A run of one test, as a worker makes it::

    device = made_for(find_gpu("H100-80GB"))  # of ``real.device`` or ``stand_in.device``
    device.install()  # before torch is used
    ...  # the session's tests are collected; then in a child process for each test:
    device.begin(Request("", "", "H100-80GB", limited=True, metric="allocated"))
    kept = torch.empty(2**30, dtype=torch.uint8, device="cuda")
    device.body_ended()  # what is held now stays: 1 GiB
    report = device.end(metric="allocated", root=os.getcwd())
    assert report.peak["allocated"] == report.held.bytes == 2**30
"""

import ctypes
import gc
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch

from ...errors import UsageMistake
from ...hardware.gpus import Gpu
from ...memory_report import MemoryReport
from ...results.answer import Answer, Request
from ...tracking.summary import memory_report
from .group_begins import after_each_group
from .kernels import follow_kernels
from .recorded_run import RecordedRun, RunResult


class Device(ABC):
    """A CUDA device: ``install``, then for each test ``begin``, ``body_ended`` and ``end``."""

    #: its name in messages
    name: str
    #: whether it is a real card; reading it initializes the driver, which does not survive a fork
    is_there: bool = False

    def __init__(self) -> None:
        #: whether files without a place have asked for theirs while they were imported
        self.imports_ask_place = False
        self._run = RecordedRun()
        self._ended: RunResult | None = None

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

    def begin_imports(  # noqa: B027 - a real card has real data, and a rank's process its variables
        self, variant: int, *, limited: bool, rank: int = 0, world_size: int = 0
    ) -> None:
        """Before files are imported: answer what nobody knows as ``variant`` has it.

        ``limited``: as of ``begin``. ``world_size``: above 0 they are imported as that rank of as many.
        """

    def end_imports(self) -> None:  # noqa: B027
        """The files have been imported: what follows is asked by tests."""

    def imported_bytes(self) -> int:
        """Device memory that was allocated while modules were imported, and is still held."""
        return torch.cuda.memory_allocated() if torch.cuda.is_initialized() else 0

    def refused(self) -> list[str]:
        """Operations that were refused in this process and that a GPU would have run, each with its line."""
        return []

    @abstractmethod
    def begin(self, request: Request) -> None:
        """Begin the test of ``request``: on its card, as its rank, with the answers of its variant.

        Where it is ``limited``, out of memory is raised where the card would.
        """

    def completed(self, answer: Answer) -> Answer:
        """After a test: its ``answer`` with what depends on data and on other ranks."""
        return answer

    def reads(self, root: str) -> list[str]:
        """The reads so far of what nobody knows, the most frequent first; paths are relative to ``root``."""
        return []

    def body_ended(self, *, is_program: bool = False) -> None:
        """Note that the test's body has ended, and its fixtures have not.

        ``is_program``: it was a whole program, at whose end reference cycles hold nothing any more.
        """
        if is_program:
            gc.collect()
        self._run.body_ended()

    @abstractmethod
    def end(self, *, metric: str, root: str, records: bool = False) -> MemoryReport:
        """End the test and its fixtures, and return its report. ``root``: paths are relative to it.

        ``records``: keep what ``snapshot`` returns.
        """

    def _end_run(self, *, records: bool) -> RunResult:
        self._ended = self._run.end(records=records)
        return self._ended

    def snapshot(self) -> dict[str, Any] | None:
        """The run as ``torch.cuda.memory._snapshot`` has it; None without ``records`` or allocations."""
        return self._ended.snapshot if self._ended is not None else None


class RealCudaDevice(Device):
    """Measures one test on the current device, which is the process's only one."""

    name = "CUDA"
    is_there = True

    def __init__(self) -> None:
        super().__init__()
        self._collectives: object = None  # they are followed as long as these are referenced
        self._kernels: object = None

    @property
    def is_awake(self) -> bool:
        """Whether this process has initialized CUDA, so that forked children cannot use it."""
        return bool(torch.cuda.is_initialized())

    def install(self) -> None:
        """Record from the initialization of CUDA on, which an import or the test causes."""
        self._run.install()
        observer = self._run.observer
        self._kernels = follow_kernels(observer.roles.computed, observer.forward_lines.operator_runs)
        after_each_group(self._follow_rank)

    def card(self) -> dict[str, Any]:
        """The number of devices, and name and size of the current one. Initializes the driver."""
        if not torch.cuda.is_available():
            return {"count": 0}
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        return {
            "count": torch.cuda.device_count(),
            "name": properties.name,
            "total_bytes": properties.total_memory,
        }

    def begin(self, request: Request | None = None) -> None:
        """Begin a test; recording begins now at the latest.

        The processes of several ranks have their devices and process groups already.
        """
        torch.cuda.init()
        self._run.begin()
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            self._follow_rank()

    def _follow_rank(self) -> None:
        """Record collectives, and FSDP2's gathered parameters, from the first group on."""
        if self._collectives is not None:
            return
        from .collectives import follow_collectives, install_gathered, note_tensors

        observer, source = self._run.observer, self._run.source
        note = observer.note_collective
        self._collectives = follow_collectives(
            lambda operator, func, args, frame: note_tensors(note, args, frame, source)
        )
        install_gathered(note, observer.see_gradient)

    def end(self, *, metric: str, root: str, records: bool = False) -> MemoryReport:
        """End the test and its fixtures, and return its report."""
        recorded = self._end_run(records=records)
        outside_bytes = _outside_bytes(recorded.stats)
        return memory_report(
            recorded.ledger,
            metric=metric,
            context_bytes=outside_bytes,
            root=root,
            seconds=recorded.seconds,
            kind="measured",
            device="cuda",
            peaks=allocators_peaks(recorded.stats, outside_bytes),
        )


def made_for(gpu: Gpu) -> RealCudaDevice:
    """The device of this machine, whatever ``gpu`` is.

    Raises ``UsageMistake`` on the stand-in, where nothing is measured.
    """
    if is_stand_in_loaded():
        raise UsageMistake("the stand-in's libraries are loaded: unset LD_PRELOAD to measure")
    return RealCudaDevice()


def is_stand_in_loaded() -> bool:
    """Whether the stand-in's libraries are loaded in this process in place of CUDA's."""
    return hasattr(ctypes.CDLL(None), "stand_in_set_cards")


def allocators_peaks(stats: Mapping[str, int], outside_bytes: int) -> dict[str, int]:
    """The peaks of ``torch.cuda.memory_stats``; ``outside_bytes``: memory outside of the allocator."""
    reserved_bytes = stats.get("reserved_bytes.all.peak", 0)
    return {
        "allocated": stats.get("allocated_bytes.all.peak", 0),
        "reserved": reserved_bytes,
        "device": reserved_bytes + outside_bytes,
    }


def _outside_bytes(stats: Mapping[str, int]) -> int:
    """Memory of this process outside of the allocator (context, libraries), if no other uses the device."""
    free_bytes, total_bytes = torch.cuda.mem_get_info()
    return max(0, total_bytes - free_bytes - stats.get("reserved_bytes.all.current", 0))
