"""TermSum: terms that are always held together, added up once for all moments that have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property

from .terms import Term, total_bytes


class TermSum:
    """Terms in order; their sums are computed lazily."""

    def __init__(self, terms: Iterable[Term] = ()) -> None:
        self.terms = tuple(terms)

    @cached_property
    def bytes(self) -> int:
        """All of them together."""
        return total_bytes(self.terms)

    @cached_property
    def allocated_by_stream(self) -> Mapping[str, int]:
        """The allocator's blocks of them, in bytes, by the CUDA stream that they are allocated on."""
        sums = Counter[str]()
        for term in self.terms:
            sums[term.stream] += term.allocated_bytes
        return sums

    def times(self, count: int) -> TermSum:
        """Each of the terms ``count`` times; nothing for none."""
        if count == 1:
            return self
        return TermSum(term.times(count) for term in self.terms) if count > 0 else EMPTY


EMPTY = TermSum()
