"""Runs a step's makes and frees over a rank's parameters, and says what is there at its highest moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeAlias

from ...components import TEMPORARIES
from ..local_tensors import LocalTensor
from ..terms import BLOCK_BYTES, Term
from .contract import Action, Actions, Free, Make, Rename

#: One list of parameters (or a single one) with its actions.
Round: TypeAlias = tuple[Sequence[LocalTensor], Actions]


@dataclass(frozen=True, slots=True)
class _Made:
    """What one variable holds: tensors of these parameters, each of its bytes."""

    name: str
    sizes: tuple[tuple[LocalTensor, int], ...]
    allocated_bytes: int

    def terms(self, source: str) -> Iterator[Term]:
        for tensor, size in self.sizes:
            name = f"{tensor.name} ({self.name})"
            yield Term(TEMPORARIES, name, size * tensor.count, "", source, tensor.count)


class _Held:
    """What variables hold, and what they held at the highest moment."""

    def __init__(self) -> None:
        self._held: dict[str, _Made] = {}
        self._total = 0
        self._peak_total = 0
        self.peak: tuple[_Made, ...] = ()

    def make(self, made: _Made) -> None:
        self._total += made.allocated_bytes
        if self._total > self._peak_total:
            self._peak_total = self._total
            self.peak = (*self._held.values(), made)
        self.free(made.name)
        self._held[made.name] = made

    def free(self, name: str) -> None:
        made = self._held.pop(name, None)
        if made is not None:
            self._total -= made.allocated_bytes

    def rename(self, action: Rename) -> None:
        made = self._held.pop(action.name, None)
        self.free(action.to)
        if made is not None:
            self._held[action.to] = made


def _sized(action: Action, tensors: Sequence[LocalTensor]) -> _Made | Free | Rename:
    """A make with its bytes; the others as they are."""
    if not isinstance(action, Make):
        return action
    sizes = [(tensor, action.size(tensor)) for tensor in tensors]
    if action.one_at_a_time:
        tensor, size = max(sizes, key=lambda pair: pair[1])
        sizes = [(replace(tensor, count=1), size)]
    sizes = [(tensor, size) for tensor, size in sizes if size]
    blocks = sum(-(-size // BLOCK_BYTES) * tensor.count for tensor, size in sizes)
    return _Made(action.name, tuple(sizes), blocks * BLOCK_BYTES)


def peak_of_rounds(rounds: Sequence[Round], source: str) -> tuple[Term, ...]:
    """What is there at the highest moment of ``rounds``, one after the other; the same one may come again."""
    held = _Held()
    different = {id(one): one for one in rounds}
    sized = {key: [_sized(action, one[0]) for action in one[1]] for key, one in different.items()}
    for one in rounds:
        for action in sized[id(one)]:
            if isinstance(action, _Made):
                held.make(action)
            elif isinstance(action, Free):
                held.free(action.name)
            else:
                held.rename(action)
    return tuple(term for made in held.peak for term in made.terms(source))


def one_by_one(tensors: Sequence[LocalTensor], make: Callable[[LocalTensor], Round]) -> Iterator[Round]:
    """A round a parameter, in a model's order, as far as neighbours go.

    What one parameter's update leaves is there in the next one's, so that neighbours decide. Parameters of
    layers come twice (the last of a layer comes before the first of the next), and within a layer so do
    those that it has many of: experts. An order is taken from the kinds' own.
    """
    for _, run in groupby(tensors, key=lambda tensor: tensor.layer):
        kinds = list(run)
        fewest = min(tensor.count for tensor in kinds)
        rounds = [(tensor.count > fewest, make(replace(tensor, count=1))) for tensor in kinds]
        for _ in range(2 if fewest > 1 else 1):
            for is_many, some in groupby(rounds, key=lambda pair: pair[0]):
                yield from [one for _, one in some] * (2 if is_many else 1)


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
