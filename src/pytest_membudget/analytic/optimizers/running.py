"""Runs a step's makes and frees over a rank's parameters, and says what is there at its highest moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from ...components import TEMPORARIES
from ..local_tensors import LocalTensor
from ..terms import Term
from .contract import Actions, Free, Make, Rename

#: One list of parameters (or a single one) with its actions.
Round = tuple[Sequence[LocalTensor], Actions]


class _Held:
    """What variables hold, and what they held at the highest moment."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._held: dict[str, tuple[Term, ...]] = {}
        self._total = 0
        self.peak: tuple[Term, ...] = ()
        self._peak_total = 0

    def make(self, action: Make, tensors: Sequence[LocalTensor]) -> None:
        terms = tuple(self._terms(action, tensors))
        self._total += allocated_bytes(terms)
        if self._total > self._peak_total:
            self._peak_total = self._total
            self.peak = tuple(term for held in (*self._held.values(), terms) for term in held)
        self.free(action.name)
        self._held[action.name] = terms

    def free(self, name: str) -> None:
        self._total -= allocated_bytes(self._held.pop(name, ()))

    def rename(self, action: Rename) -> None:
        held = self._held.pop(action.name, ())
        self.free(action.to)
        self._held[action.to] = held

    def _terms(self, action: Make, tensors: Sequence[LocalTensor]) -> Iterator[Term]:
        sizes = [(tensor, action.size(tensor)) for tensor in tensors]
        if action.one_at_a_time:
            tensor, size = max(sizes, key=lambda pair: pair[1])
            sizes = [(replace(tensor, count=1), size)]
        for tensor, size in sizes:
            if size:
                name = f"{tensor.name} ({action.name})"
                yield Term(TEMPORARIES, name, size * tensor.count, "", self._source, tensor.count)


def peak_of_rounds(rounds: Iterable[Round], source: str) -> tuple[Term, ...]:
    """What is there at the highest moment of ``rounds``, one after the other."""
    held = _Held(source)
    for tensors, actions in rounds:
        for action in actions:
            if isinstance(action, Make):
                held.make(action, tensors)
            elif isinstance(action, Free):
                held.free(action.name)
            else:
                held.rename(action)
    return held.peak


def one_by_one(tensors: Sequence[LocalTensor]) -> Iterator[LocalTensor]:
    """Single parameters in a model's order, as far as neighbours go.

    What one parameter's update leaves is there in the next one's, so that neighbours decide. Parameters of
    layers come twice (the last of a layer stands before the first of the next), and within a layer so do
    those that it has many of: experts. An order is taken from the kinds' own.
    """
    for _, run in groupby(tensors, key=lambda tensor: tensor.layer):
        kinds = list(run)
        fewest = min(tensor.count for tensor in kinds)
        for _ in range(2 if fewest > 1 else 1):
            yield from _within_layer(kinds, fewest)


def _within_layer(kinds: Sequence[LocalTensor], fewest: int) -> Iterator[LocalTensor]:
    for is_many, some in groupby(kinds, key=lambda tensor: tensor.count > fewest):
        singles = [replace(tensor, count=1) for tensor in some]
        yield from singles * (2 if is_many else 1)


def highest(found: Iterable[tuple[Term, ...]]) -> tuple[Term, ...]:
    """The largest of several; of equals the first."""
    return max(found, key=allocated_bytes, default=())


def allocated_bytes(terms: Iterable[Term]) -> int:
    """What moments are compared by: blocks, as the allocator counts them."""
    return sum(term.allocated_bytes for term in terms)


def in_groups(
    tensors: Sequence[LocalTensor], key: Callable[[LocalTensor], object]
) -> tuple[tuple[LocalTensor, ...], ...]:
    """``tensors`` by what ``key`` says, groups in the order of their first."""
    groups: dict[object, list[LocalTensor]] = {}
    for tensor in tensors:
        groups.setdefault(key(tensor), []).append(tensor)
    return tuple(map(tuple, groups.values()))
