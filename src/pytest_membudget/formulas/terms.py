"""A term: one piece of a figure, with its formula and its source, so that a report can show the sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Final

BLOCK_BYTES: Final = 512
"""What every block is a multiple of: kMinBlockSize (c10/core/AllocatorConfig.h, torch 2.13)."""


@dataclass(frozen=True, slots=True)
class Term:
    """Bytes of one component on one rank, and where they come from."""

    component: str
    name: str
    bytes: int
    formula: str = ""
    """How the bytes come about, as ``b*s*h*2``, with the numbers of ``source`` where it is published."""
    source: str = ""
    count: int = 1
    """How many identical ones are in ``bytes``: layers, tensors."""
    stream: str = ""
    """The CUDA stream it is allocated on, where it is not the computing one: blocks stay with theirs."""

    @property
    def allocated_bytes(self) -> int:
        """``bytes`` with every one of its tensors rounded up to the allocator's blocks."""
        one = -(-self.bytes // self.count)
        return -(-one // BLOCK_BYTES) * BLOCK_BYTES * self.count

    def times(self, count: int) -> Term:
        """The same piece ``count`` times."""
        return Term(  # dataclasses.replace takes ten times as long
            self.component,
            self.name,
            self.bytes * count,
            self.formula,
            self.source,
            self.count * count,
            self.stream,
        )


def by_component(terms: Iterable[Term]) -> dict[str, int]:
    """The bytes of each component."""
    sums = Counter[str]()
    for term in terms:
        sums[term.component] += term.bytes
    return dict(sums)


def total_bytes(terms: Iterable[Term]) -> int:
    """All of them together."""
    return sum(term.bytes for term in terms)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Named sizes of a job on one rank (``b`` microbatch, ``s`` sequence, ``h`` hidden ...)."""

    values: Mapping[str, int]

    def bytes(self, dims: str, element_bytes: int = 1) -> int:
        """Of a tensor with the dimensions ``dims``, names and numbers with spaces between: ``"b s h"``."""
        return prod(self._value(dim) for dim in dims.split()) * element_bytes

    def formula(self, dims: str, element_bytes: int = 1) -> str:
        """The same as text: ``b*s*h*2``."""
        return "*".join([*dims.split(), str(element_bytes)])

    def _value(self, dim: str) -> int:
        return int(dim) if dim.isdigit() else self.values[dim]
