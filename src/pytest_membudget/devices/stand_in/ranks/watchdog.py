"""ProcessGroupNCCL's watchdog, which lets go of what collectives have used where nobody waits for them.

A tensor of an asynchronous collective is held until ``Work.wait``, or until the watchdog has found the
collective done and the next one begins (``stashed_for_allocator_safety_``, ProcessGroupNCCL.cpp, 2.11 to
2.14). So are DistributedDataParallel's first buckets, and what a distributed optimizer reduces that waits for
futures alone. The watchdog looks ten times a second: a card may be done with a step before it looks, or long
after. Here it looks before the first collective after each backward, or, in the variant ``LATE_WATCHDOG``,
after each second one, but where something was compiled since, which takes seconds. Both were measured
(docs/accuracy.md). It looks at no other time: what is held would differ from run to run. Steps that are
shorter than its interval hold more at once, which is named.
"""

import ctypes
import sys
from collections.abc import Callable
from typing import Any, Final

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from ....caveats import STEP_TIME, Caveat
from ...real.observer import allocated_bytes, around_backwards
from ..values.variants import VARIANT

#: So many looks that free nothing are at each backward.
_VAIN_LOOKS: Final = 4
#: Steps of which the figure, the larger, has what they hold.
_MOST_HELD: Final = 2
_LONG_STEPS: Final = (
    "steps taken to be 100 ms or longer: so often NCCL's watchdog lets go of what collectives use that "
    "nobody waits for, and shorter steps hold more of it"
)


class Watchdog:
    """Says when the watchdog looks. Installed once in a process."""

    def __init__(self) -> None:
        #: how many backwards have run, and how many since it has looked
        self._steps = self._backwards = 0
        #: how many graphs had been compiled when the last one ended
        self._graphs = 0
        #: how many more there are before it looks, where it is late: at first two steps are in the third
        self._late_by = 2
        #: how many looks have let go of memory, and how many one after the other have not
        self._freeing_looks = self._vain_looks = 0
        #: how often DistributedDataParallel has made its buckets anew, of which a look may let go too
        self._rebuilds = 0
        #: after a look, until it is known: what counts what the next collective frees, and its count before
        self._counted: tuple[str, int] | None = None
        self._delay_watchdog = ctypes.CDLL(None).stand_in_delay_watchdog

    @property
    def lets_go(self) -> bool:
        """Whether more may be held where it looks later."""
        return self._freeing_looks + self._rebuilds > 0

    def caveats(self) -> list[Caveat]:
        """How long steps are taken to be, where more than two hold something, and not buckets alone."""
        matters = self._steps > _MOST_HELD and self._freeing_looks > self._rebuilds
        return [Caveat(STEP_TIME, _LONG_STEPS)] if matters else []

    def install(self) -> None:
        """From here on."""
        self._delay_watchdog(True)
        own: Any = dist
        rebuild = own.Reducer._rebuild_buckets

        def rebuild_buckets(reducer: Any) -> Any:
            is_new = rebuild(reducer)
            if is_new:  # the first ones are there a step longer at most, as measured
                self._rebuilds += 1
                self._late_by, self._vain_looks = 1, 0
            return is_new

        own.Reducer._rebuild_buckets = rebuild_buckets
        around_backwards(self._counting)
        for name in ("_wait_for_pending_works", "shutdown"):
            setattr(own.ProcessGroup, name, self._looking(getattr(own.ProcessGroup, name)))

    def before_collective(self, *, is_async: bool) -> None:
        """A collective begins: the first after a backward finds all before it done.

        A look takes the watchdog's 100 ms: where some free nothing, the next ones are ever further apart.
        """
        is_late = VARIANT.has_late_watchdog and _compiled_graphs() == self._graphs
        least = 1 + self._late_by * is_late
        if self._backwards >= max(least, 2 ** (self._vain_looks - _VAIN_LOOKS)):
            self._backwards, self._late_by = 0, 1
            for group in filter(_is_watched, tuple(c10d._world.pg_map)):
                group._wait_for_pending_works()
            # one that is not asynchronous frees its own copies too before it returns
            counter = "freed" if is_async else "current"
            self._counted = counter, allocated_bytes(counter)

    def after_collective(self) -> None:
        """It has begun: it frees what was found done."""
        if self._counted is not None:
            counter, before_bytes = self._counted
            change_bytes = allocated_bytes(counter) - before_bytes
            has_freed = change_bytes > 0 if counter == "freed" else change_bytes < 0
            self._freeing_looks += has_freed
            self._vain_looks = 0 if has_freed else self._vain_looks + 1
            self._counted = None

    def _counting(self, run_backward: Callable[..., Any]) -> Callable[..., Any]:
        def backward(*args: Any, **kwargs: Any) -> Any:
            try:
                return run_backward(*args, **kwargs)
            finally:
                self._steps += 1
                self._backwards += 1
                self._graphs = _compiled_graphs()

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


def _compiled_graphs() -> int:
    dynamo: Any = sys.modules.get("torch._dynamo.utils")
    return int(dynamo.counters["stats"]["unique_graphs"]) if dynamo is not None else 0


def _is_watched(group: Any) -> bool:
    """Whether cards are served by ProcessGroupNCCL; not by its successor, which lets go at once."""
    devices = [device for device in group._device_types if device.type == "cuda"]
    return any(type(group._get_backend(device)) is c10d.ProcessGroupNCCL for device in devices)
