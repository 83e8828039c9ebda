"""What a recorded history says of the allocator's settings (``PYTORCH_ALLOC_CONF``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AllocatorSettings:
    """The settings that change the blocks of a request; the defaults are PyTorch's.

    ``roundup_power2_divisions``: the divisions of one power of two after the other, the first for 1 MiB
    and less, the last for its own and more; empty: off.
    """

    expandable_segments: bool = False
    roundup_power2_divisions: tuple[int, ...] = ()
    max_split_size_bytes: int | None = None
