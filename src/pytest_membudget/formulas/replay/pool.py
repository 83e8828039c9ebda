"""Tensors in the model of the caching allocator, each freed when the last that holds it lets it go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ...allocator.blocks import Block
from ...allocator.caching import CachingAllocator
from ...allocator.settings import AllocatorSettings
from ..terms import Term
from .script import Event

#: Streams by the names that terms have for them: blocks stay with the one that they were made on.
_STREAMS: Final = {"": 0, "all-gather": 1, "reduce-scatter": 2}


class Held:
    """A tensor, and how many hold it."""

    __slots__ = ("block", "holders")

    def __init__(self, block: Block) -> None:
        self.block = block
        self.holders = 1


class Pool:
    """Makes and frees tensors; of 0 bytes there are none."""

    def __init__(self, settings: AllocatorSettings) -> None:
        self._allocator = CachingAllocator(settings)

    @property
    def peak_reserved_bytes(self) -> int:
        """The most that segments came to so far."""
        return self._allocator.peak_reserved_bytes

    def make(self, size_bytes: int, stream: str = "") -> Held | None:
        """One tensor."""
        if not size_bytes:
            return None
        return Held(self._allocator.allocate(size_bytes, _STREAMS[stream]))

    def make_all(self, terms: Iterable[Term]) -> list[Held]:
        """All tensors of ``terms``."""
        made = (
            self.make(-(-term.bytes // term.count), term.stream) for term in terms for _ in range(term.count)
        )
        return [held for held in made if held is not None]

    def drop(self, held: Held | None) -> None:
        """One holder less."""
        if held is not None:
            held.holders -= 1
            if not held.holders:
                self._allocator.free(held.block)

    def drop_all(self, some: Iterable[Held | None]) -> None:
        """One holder less of each."""
        for held in some:
            self.drop(held)

    def run(self, events: Iterable[Event], there: dict[str, Held]) -> None:
        """``events`` over what is ``there``, by name."""
        allocate, free = self._allocator.allocate, self._allocator.free
        for name, size_bytes in events:
            if size_bytes:
                there[name] = Held(allocate(size_bytes))
                continue
            held = there.pop(name, None)
            if held is not None:
                held.holders -= 1
                if not held.holders:
                    free(held.block)
