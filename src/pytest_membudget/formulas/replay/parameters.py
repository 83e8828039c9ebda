"""A rank's parameter tensors one by one, in the order in which a model makes them and an optimizer steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from ..job import Job
from ..local_tensors import LocalTensor
from ..quantised import quantised_storages
from ..states import state_terms
from ..terms import Term

T = TypeVar("T")


def in_order(tensors: Sequence[LocalTensor]) -> list[LocalTensor]:
    """Each tensor by itself: the embedding's, layer by layer, the head's."""
    alone = [replace(tensor, count=1) for tensor in tensors]
    kinds = [
        Kind(one, (tensor.layer, tensor.name), tensor.count)
        for one, tensor in zip(alone, tensors, strict=True)
    ]
    return layer_by_layer(kinds)


def temporaries_in_order(terms: Sequence[Term], tensors: Sequence[LocalTensor]) -> list[int]:
    """The bytes of each tensor that an optimizer's step makes: a list of all parameters' after the other.

    ``terms`` are named after their parameter and the variable that holds them, ``tensors`` are in any order.
    """
    layers = {tensor.name: tensor.layer for tensor in tensors}
    by_variable: dict[str, list[Kind[int]]] = {}
    for term in terms:
        name, _, variable = term.name.partition(" (")
        kind = Kind(-(-term.bytes // term.count), (layers.get(name, ""), name), term.count)
        by_variable.setdefault(variable, []).append(kind)
    return [size_bytes for kinds in by_variable.values() for size_bytes in layer_by_layer(kinds)]


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """Identical things, one or more a layer."""

    thing: T
    place: tuple[str, str]
    """The part of the model that it is in, and its name there."""
    number: int


def layer_by_layer(kinds: Iterable[Kind[T]]) -> list[T]:
    """Each thing by itself, in the order of a model; identical layers have one or several of each kind."""
    found: list[T] = []
    for run in _runs(kinds):
        depth = min(kind.number for kind in run)
        found += [kind.thing for kind in run for _ in range(kind.number // depth)] * depth
    return found


def _runs(kinds: Iterable[Kind[T]]) -> Iterator[list[Kind[T]]]:
    """Those of one run of identical layers: the next run has the same names again."""
    run: list[Kind[T]] = []
    for kind in kinds:
        if run and (run[0].place[0] != kind.place[0] or any(one.place == kind.place for one in run)):
            yield run
            run = []
        run.append(kind)
    if run:
        yield run


def storages(tensor: LocalTensor) -> tuple[int, ...]:
    """The bytes of each tensor that ``tensor`` is stored in: one, or those of its quantised form."""
    if tensor.quantised is None:
        return (tensor.bytes,)
    return tuple(size_bytes for _, size_bytes in quantised_storages(tensor.shape, tensor.quantised))


def states_in_order(tensors: Sequence[LocalTensor], job: Job) -> Iterator[int]:
    """The bytes of each optimizer state on the card, as a first step makes them: parameter by parameter."""
    sizes: dict[LocalTensor, list[int]] = {}
    shared: set[str] = set()
    for tensor in tensors:
        if tensor not in sizes:
            terms = state_terms((tensor,), job)
            sizes[tensor] = [term.bytes for term in terms if term.name.startswith(tensor.name)]
            for term in terms:
                if not term.name.startswith(tensor.name) and term.name not in shared:
                    shared.add(term.name)
                    yield term.bytes
        yield from sizes[tensor]
