"""DistributedDataParallel's buckets, which ProcessGroupNCCL's watchdog lets go of a while after their use.

Up to torch 2.14 it looks ten times a second (``kWatchdogThreadSleepMillis``, ProcessGroupNCCL.cpp, 2.13), and
the next collective frees what it has found done. A card may be done with a step before it looks, or long
after: here it looks before buckets are made anew, or, in the variant ``LATE_WATCHDOG``, in the step after.
Both were measured (docs/accuracy.md). It looks at no other time: what is held would differ from run to run.
"""

import ctypes
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from ..values.variants import VARIANT


class Reducers:
    """Says when the watchdog looks. Installed once in a process."""

    def __init__(self) -> None:
        #: whether any has made its buckets anew
        self.were_renewed = False
        self._renewed: WeakSet[Any] = WeakSet()
        self._delay_watchdog = ctypes.CDLL(None).stand_in_delay_watchdog

    def install(self) -> None:
        """From here on."""
        own: Any = dist
        rebuild = own.Reducer._rebuild_buckets

        def rebuild_buckets(reducer: Any) -> Any:
            if not VARIANT.has_late_watchdog or reducer in self._renewed:
                _wait_for_watchdogs()
            if is_new := rebuild(reducer):
                self.were_renewed = True
                self._renewed.add(reducer)
            return is_new

        own.Reducer._rebuild_buckets = rebuild_buckets
        self._delay_watchdog(True)
        for name in ("_wait_for_pending_works", "shutdown"):
            setattr(own.ProcessGroup, name, self._looking(getattr(own.ProcessGroup, name)))

    def _looking(self, wait: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """``wait``, which waits for the watchdog."""

        def looking(group: Any) -> Any:
            self._delay_watchdog(False)
            try:
                return wait(group)
            finally:
                self._delay_watchdog(True)

        return looking


def _wait_for_watchdogs() -> None:
    for group in tuple(c10d._world.pg_map):
        if _is_watched(group):
            group._wait_for_pending_works()


def _is_watched(group: Any) -> bool:
    """Whether cards are served by ProcessGroupNCCL; not by its successor, which lets go at once."""
    devices = [device for device in group._device_types if device.type == "cuda"]
    return any(type(group._get_backend(device)) is c10d.ProcessGroupNCCL for device in devices)
