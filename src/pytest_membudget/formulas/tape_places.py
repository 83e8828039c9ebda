"""What a block's freed tensors leave in the allocator's pool that nothing later fits into.

Best fit in one stretch of memory that grows at its end, neighbours that are free made one: what expandable
segments are, and what the caching allocator comes to if every tensor has a separate segment
(c10/cuda/CUDACachingAllocator.cpp, torch 2.13: ``get_free_block``, ``try_merge_blocks``).
"""

from __future__ import annotations

from .tape import before_backward
from .tape_backward import Backward
from .tape_live import Live
from .tape_shapes import Gradients, Tape, Tensor

_WHOLE = 1 << 62


class Places(Live):
    """What is alive, and where it lies."""

    def __init__(self) -> None:
        super().__init__()
        self._at: dict[str, tuple[int, int]] = {}
        self._free = [(0, _WHOLE)]  # begin, end
        self.end_bytes = 0
        """How far the pool reaches."""

    def take(self, tensor: Tensor, component: str, name: str | None = None) -> None:
        """It begins to exist, in the smallest place that it fits into."""
        name = tensor.name if name is None else name
        if tensor.bytes and name not in self._at:
            fits = [place for place in self._free if place[1] - place[0] >= tensor.bytes]
            begin, end = min(fits, key=lambda place: place[1] - place[0])
            self._free.remove((begin, end))
            self._put_back(begin + tensor.bytes, end)
            self._at[name] = begin, begin + tensor.bytes
            self.end_bytes = max(self.end_bytes, begin + tensor.bytes)
        super().take(tensor, component, name)

    def drop(self, name: str) -> None:
        """It is freed, if it is there."""
        place = self._at.pop(name, None)
        if place is not None:
            self._put_back(*place)
        super().drop(name)

    def _put_back(self, begin: int, end: int) -> None:
        merged = []
        for place in self._free:
            if place[1] == begin or place[0] == end:
                begin, end = min(begin, place[0]), max(end, place[1])
            else:
                merged.append(place)
        self._free = [*merged, (begin, end)] if end > begin else merged


def stranded_bytes(tape: Tape, gradients: Gradients = "kept") -> int:
    """By how much the pool outgrows the most that is alive, in a forward and the backward after it.

    For a block that is followed by its own backward: the head. Its logits are larger than any other
    tensor's place, so that what they were in before their copy in fp32 stays empty.
    """
    places = Places()
    before_backward(tape, places)
    Backward(tape, places, gradients).run()
    return places.end_bytes - places.result().peak_bytes
