"""What files have of storages that nobody has computed: a hole, and that they are unknown.

A hole is neither written nor stored, nor read back. Values that nobody knows are not known when they are
loaded; all else (steps, settings, tokens) is what was saved.
"""

from typing import Any

import torch

from ..host.fills import LARGE_BYTES
from ..host.memory import Hollow, HostMemory
from ..values.following import Following


def is_without_data(host: HostMemory, address: int, size_bytes: int) -> bool:
    """Whether these bytes are many, and anything: nobody has computed them."""
    return size_bytes >= LARGE_BYTES and host.hollow_at(address) != 0


def is_hole(host: HostMemory, address: int, size_bytes: int) -> bool:
    """Whether a hole in a new file says all of these bytes: they are anything, or zero without a page."""
    if size_bytes < LARGE_BYTES:
        return False
    return host.hollow_at(address) != 0 or host.is_untouched_at(address, size_bytes)


def set_unknown(following: Following, storage: torch.UntypedStorage) -> None:
    """Nobody knows what ``storage`` holds, which was loaded just now.

    A new one on a card has been copied from new memory of the host.
    """
    if storage.device.type == "cpu":
        following.host.set_hollow_at(storage.data_ptr(), Hollow.NOT_COMPUTED)
    else:
        following.forget_at(storage.data_ptr())


def can_skip(stream: Any) -> bool:
    """Whether seeking forward leaves a hole; a file that is appended to is written at its end."""
    seekable = getattr(stream, "seekable", None)
    return callable(seekable) and bool(seekable()) and "a" not in str(getattr(stream, "mode", ""))
