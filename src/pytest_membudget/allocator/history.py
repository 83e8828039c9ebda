"""Allocator histories: what ``torch.cuda.memory._record_memory_history`` keeps.

A history is the events of a device, oldest first. In the events
``alloc`` and ``free_*`` carry the size that was requested, ``segment_*`` the real one. A block counts as
allocated until ``free_requested``, and is free from ``free_completed`` on, when its streams are done
(``record_trace`` in ``c10/cuda/CUDACachingAllocator.cpp``, 2.11).
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

Frames = Sequence[Mapping[str, Any]]
"""A stack, the innermost frame first: ``{"filename", "line", "name"}``."""


class HistoryEvent(NamedTuple):
    """One event; the address of an ``oom`` is the number of bytes that the device had free.

    ``text``: the user's (``user_metadata``).
    """

    action: str
    address: int
    size_bytes: int
    text: str = ""
    frames: Frames = ()


@dataclass(frozen=True, slots=True)
class AllocatorSettings:
    """The settings that change the blocks of a request (``PYTORCH_ALLOC_CONF``); the defaults are PyTorch's.

    ``roundup_power2_divisions``: the divisions of one power of two after the other, the first for 1 MiB
    and less, the last for its own and more; empty: off.
    """

    expandable_segments: bool = False
    roundup_power2_divisions: tuple[int, ...] = ()
    max_split_size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceHistory:
    """One device: its events, oldest first, and the settings they obeyed."""

    events: tuple[HistoryEvent, ...]
    settings: AllocatorSettings

    def digest(self) -> str:
        """Of what was asked for and given back, and in which block: equal runs have equal ones.

        Blocks and segments are numbered as they appear: where they lie depends on the process too. The order
        of what is given back at once, as by a dictionary that goes, changes nothing.
        """
        numbers: dict[int, int] = {}
        known = numbers.setdefault
        found = hashlib.sha256()
        events = ((one.action, known(one.address, len(numbers)), one.size_bytes) for one in self.events)
        for is_freed, group in groupby(events, key=lambda one: one[0].startswith("free")):
            some = [*group]
            found.update(repr(sorted(some) if is_freed else some).encode())
        return found.hexdigest()
