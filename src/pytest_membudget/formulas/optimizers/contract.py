"""What a family of optimizers says of itself: the states of a parameter, and its step as makes and frees."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from ..job import Optimizer
from ..local_tensors import LocalTensor

#: How a step goes over its parameters: all of a number type at once, one after the other, or in one kernel
#: that makes nothing.
Implementation: TypeAlias = Literal["foreach", "fused", "loop"]


@dataclass(frozen=True, slots=True)
class State:
    """One tensor that an optimizer keeps for a parameter."""

    name: str
    bytes: int
    formula: str = ""
    on_host: bool = False


@dataclass(frozen=True, slots=True)
class Make:
    """A tensor a parameter begins to exist under a variable's name; what had the name goes afterwards."""

    name: str
    size: Callable[[LocalTensor], int]
    """Its bytes."""
    one_at_a_time: bool = False
    """In a step over lists: made for one parameter after the other, so that the largest counts."""


@dataclass(frozen=True, slots=True)
class Free:
    """What has the name goes, if there is any."""

    name: str


@dataclass(frozen=True, slots=True)
class Rename:
    """A variable is bound to what another one had; what it had goes."""

    name: str
    to: str


#: Those of the optimizers that have all three.
ALL: Final[tuple[Implementation, ...]] = ("foreach", "fused", "loop")
Action: TypeAlias = Make | Free | Rename
Actions: TypeAlias = tuple[Action, ...]
States: TypeAlias = Callable[[LocalTensor, Optimizer], tuple[State, ...]]


def _no_states(tensor: LocalTensor, optimizer: Optimizer) -> tuple[State, ...]:
    return ()


def _nothing(tensor: LocalTensor, optimizer: Optimizer, how: Implementation) -> Actions:
    return ()


def _one_group(tensor: LocalTensor) -> Hashable:
    return None


@dataclass(frozen=True, slots=True)
class Family:
    """One optimizer of one library.

    Tensors are given as the optimizer sees them: in fp32 where it works on a master copy.
    """

    source: str
    """Files and version that were read."""
    states: States
    """Of one parameter."""
    update: Callable[[LocalTensor, Optimizer, Implementation], Actions] = _nothing
    """The step: of one parameter (loop), or of a list of which ``tensor`` is one (foreach). In the order in
    which they happen, from the second step on. Variables stay until they are bound again: a loop's into the
    next parameter, a list's into the next group."""
    shared: States = _no_states
    """What all parameters share, as far as this one needs it."""
    implementations: tuple[Implementation, ...] = ("foreach", "loop")
    """That it has, its default on CUDA first."""
    group: Callable[[LocalTensor], Hashable] = field(default=_one_group)
    """What keeps parameters of one number type in different lists."""
    not_modelled: str = ""
    """What of its step is not known, for reports."""


def torch_source(file: str) -> str:
    """A file of torch.optim that was read."""
    return f"torch/optim/{file}.py, torch 2.13.0"


def as_large(tensor: LocalTensor) -> int:
    """Bytes of a tensor like the parameter."""
    return tensor.bytes


def like_parameter(tensor: LocalTensor, *names: str) -> tuple[State, ...]:
    """States of the parameter's shape and type."""
    formula = formula_of(tensor.shape, tensor.number_type)
    return tuple(State(name, tensor.bytes, formula) for name in names)


def formula_of(shape: tuple[int, ...], number_type: str) -> str:
    """A shape and a type as text: ``4096*1024*bf16``."""
    return "*".join([*map(str, shape), number_type])


def keeps(
    *names: str, counters: tuple[str, ...] = ()
) -> Callable[[LocalTensor, Optimizer], tuple[State, ...]]:
    """What keeps ``counters`` and, of each parameter's shape and type, ``names``."""

    def states(tensor: LocalTensor, optimizer: Optimizer) -> tuple[State, ...]:
        return *(counter(optimizer, name) for name in counters), *like_parameter(tensor, *names)

    return states


def counter(optimizer: Optimizer, name: str = "step") -> State:
    """torch's step counter, an fp32 number on the host; on the card with the fused kernels."""
    return State(name, 4, "fp32", on_host=optimizer.implementation != "fused")
