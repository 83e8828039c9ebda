"""The stand-in as a piece of work meets it: what PyTorch's own allocator did, and what is noted."""

from __future__ import annotations

from typing import Any

import torch

from pytest_membudget.devices.stand_in.after_fork import allow_cuda_after_fork
from pytest_membudget.devices.stand_in.host.tensors import HostTensors
from pytest_membudget.devices.stand_in.libraries import StandInLibraries
from pytest_membudget.devices.stand_in.values.values import Values
from pytest_membudget.tracking.running_code.source import users_source

from .recording import Event

#: More events than any piece of work has.
_MOST_EVENTS = 2_000_000


class StandInSide:
    """The stand-in, in a process that was started with its libraries."""

    def __init__(self) -> None:
        self._libraries = StandInLibraries()
        self._values = Values(users_source())
        self._host = HostTensors(self._values.following)

    def install(self) -> None:
        """As ``StandInDevice``, without its recording of stacks."""
        self._host.install()
        self._values.install()

    def begin(self) -> None:
        """In a child: record from here on, without stacks."""
        allow_cuda_after_fork()
        torch.cuda.init()
        self._values.begin()
        memory: Any = torch.cuda.memory
        memory._record_memory_history("all", context=None, max_entries=_MOST_EVENTS)
        torch.cuda.reset_peak_memory_stats()
        self._before = self._made()
        self._noted_before = self._libraries.not_modelled()

    def allocations(self) -> int:
        """How many requests the allocator has served since ``begin``."""
        return self._made() - self._before

    def events(self) -> list[Event]:
        """What the allocator did since ``begin``."""
        memory: Any = torch.cuda.memory
        trace = memory._snapshot()["device_traces"][torch.cuda.current_device()]
        wanted = ("alloc", "free_completed")
        return [Event(one["action"], one["addr"], one["size"]) for one in trace if one["action"] in wanted]

    def peaks(self) -> dict[str, int]:
        """The allocator's peaks, in bytes."""
        stats = torch.cuda.memory_stats()
        return {
            name: stats.get(f"{name}_bytes.all.peak", 0) for name in ("requested", "allocated", "reserved")
        }

    def assumed(self) -> list[str]:
        """What was read or sized without being known."""
        return [one.text for one in self._values.caveats("/")]

    def not_modelled(self) -> list[str]:
        """What ran and may have taken memory that is not counted."""
        return [name for name in self._libraries.not_modelled() if name not in self._noted_before]

    @staticmethod
    def _made() -> int:
        stats: Any = torch._C._cuda_memoryStats(torch.cuda.current_device())
        return int(stats["allocation"]["all"]["allocated"])
