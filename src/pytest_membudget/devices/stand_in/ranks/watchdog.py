"""ProcessGroupNCCL's watchdog, which lets go of what collectives have used where nobody waits for them.

A tensor of an asynchronous collective is held until ``Work.wait``, or until the watchdog has found the
collective done and the next one begins (``stashed_for_allocator_safety_``, ProcessGroupNCCL.cpp, 2.11 to
2.14). So are DistributedDataParallel's first buckets, and what a distributed optimizer reduces that waits for
futures alone. The watchdog looks ten times a second: a card may be done with a step before it looks, or long
after. Here it looks before the first collective after each backward, or, in the variant ``LATE_WATCHDOG``,
after each second one. Both were measured (docs/accuracy.md). It looks at no other time: what is held would
differ from run to run.
"""

import ctypes
from collections.abc import Callable
from typing import Any, Final

import torch
import torch.distributed as dist
from torch.cuda.memory import memory_stats_as_nested_dict
from torch.distributed import distributed_c10d as c10d

from ..values.variants import VARIANT

_ENTRY: Final = "_engine_run_backward"
#: So many looks in vain are at each backward.
_VAIN_LOOKS: Final = 4


class Watchdog:
    """Says when the watchdog looks. Installed once in a process."""

    def __init__(self) -> None:
        #: how many backwards have run since it has looked
        self._backwards = 0
        self._has_looked = False
        #: how many looks one after the other have freed nothing
        self._vain_looks = 0
        #: what had been freed before the collective that follows a look
        self._freed_bytes: int | None = None
        #: whether a look has let go of memory, or may have: DDP has made its buckets anew
        self.has_freed = False
        self._delay_watchdog = ctypes.CDLL(None).stand_in_delay_watchdog

    def install(self) -> None:
        """From here on."""
        self._delay_watchdog(True)
        own: Any = dist
        rebuild = own.Reducer._rebuild_buckets

        def rebuild_buckets(reducer: Any) -> Any:
            is_new = rebuild(reducer)
            if is_new:  # the first ones are there a step longer at most, as measured
                self.has_freed, self._has_looked, self._vain_looks = True, True, 0
            return is_new

        own.Reducer._rebuild_buckets = rebuild_buckets
        for module in (torch.autograd.graph, torch.autograd):  # the engine's entry, under both its names
            setattr(module, _ENTRY, self._counting(getattr(module, _ENTRY)))
        for name in ("_wait_for_pending_works", "shutdown"):
            setattr(own.ProcessGroup, name, self._looking(getattr(own.ProcessGroup, name)))

    def before_collective(self) -> None:
        """A collective begins: the first after a backward finds all before it done.

        A look takes the watchdog's 100 ms: where some free nothing, the next ones are ever further apart.
        """
        later = VARIANT.has_late_watchdog * (1 if self._has_looked else 2)
        if self._backwards > later and self._backwards >= 2 ** (self._vain_looks - _VAIN_LOOKS):
            self._backwards, self._has_looked = 0, True
            for group in filter(_is_watched, tuple(c10d._world.pg_map)):
                group._wait_for_pending_works()
            self._freed_bytes = _freed_bytes()

    def after_collective(self) -> None:
        """It has begun: it frees what was found done."""
        if self._freed_bytes is not None:
            is_freed = _freed_bytes() > self._freed_bytes
            self.has_freed |= is_freed
            self._vain_looks = 0 if is_freed else self._vain_looks + 1
            self._freed_bytes = None

    def _counting(self, run_backward: Callable[..., Any]) -> Callable[..., Any]:
        def backward(*args: Any, **kwargs: Any) -> Any:
            try:
                return run_backward(*args, **kwargs)
            finally:
                self._backwards += 1

        return backward

    def _looking(self, wait: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """``wait``, which waits for the watchdog: those of all groups look then."""

        def looking(group: Any) -> Any:
            self._delay_watchdog(False)
            try:
                return wait(group)
            finally:
                self._delay_watchdog(True)

        return looking


def _freed_bytes() -> int:
    device = torch.accelerator.current_device_index()  # by number: a test may have patched torch.cuda
    return int(memory_stats_as_nested_dict(device)["allocated_bytes"]["all"]["freed"])


def _is_watched(group: Any) -> bool:
    """Whether cards are served by ProcessGroupNCCL; not by its successor, which lets go at once."""
    devices = [device for device in group._device_types if device.type == "cuda"]
    return any(type(group._get_backend(device)) is c10d.ProcessGroupNCCL for device in devices)
