"""Tensors in memory as the caching allocator fits them, each freed when the last that holds it lets it go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..terms import Term
from .fitting import Fitting, Place
from .script import Event

#: Streams by the names that terms have for them: blocks stay with the one that they were made on.
_STREAMS: Final = {"": 0, "all-gather": 1, "reduce-scatter": 2}


class Held:
    """A tensor, and how many hold it."""

    __slots__ = ("holders", "place")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.holders = 1


class Pool:
    """Makes and frees tensors; of 0 bytes there are none."""

    def __init__(self, *, expandable: bool) -> None:
        self._memory = Fitting(expandable=expandable)

    @property
    def reserved_bytes(self) -> int:
        """What segments come to: none is given back."""
        return self._memory.reserved_bytes

    def make(self, size_bytes: int, stream: str = "") -> Held | None:
        """One tensor."""
        if not size_bytes:
            return None
        return Held(self._memory.place(size_bytes, _STREAMS[stream]))

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
                self._memory.free(held.place)

    def drop_all(self, some: Iterable[Held | None]) -> None:
        """One holder less of each."""
        for held in some:
            self.drop(held)

    def run(self, events: Iterable[Event], there: dict[str, Held]) -> None:
        """``events`` over what is ``there``, by name."""
        place, free = self._memory.place, self._memory.free
        for name, size_bytes in events:
            if size_bytes:
                there[name] = Held(place(size_bytes))
                continue
            held = there.pop(name, None)
            if held is not None:
                held.holders -= 1
                if not held.holders:
                    free(held.place)
