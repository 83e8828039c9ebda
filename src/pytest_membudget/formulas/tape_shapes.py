"""A tape: the operators of one block in forward order, with tensors that have names, bytes and formulas."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ..components import ACTIVATIONS

#: What becomes of a weight's gradient: it stays (and is the first), it is added to one that is there, or
#: an optimizer uses and frees it at once.
Gradients = Literal["kept", "added", "freed"]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a tape, as one rank has it."""

    name: str
    bytes: int
    formula: str = ""
    """How the bytes come about, as ``b*s*h*2``."""
    view_of: str | None = None
    """It shares that tensor's storage; its bytes are its gradient's."""
    needs_grad: bool = True
    held_to: str | None = None
    """The operator until which a local variable holds it, read or not."""
    component: str = ACTIVATIONS
    """What it is when it is saved."""
    update_bytes: int = 0
    """Of a weight's gradient: what an optimizer that uses it at once takes in addition."""
    joins: Literal["waits", "ends"] | None = None
    """Of the gradient of a weight that two blocks use (a tied head): that of the later block waits in any
    case, that of the earlier one is added to it and goes."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One step of a block."""

    name: str
    reads: tuple[str, ...]
    """Tensors; each that needs a gradient gets one in backward."""
    makes: tuple[Tensor, ...] = ()
    saves: tuple[str, ...] = ()
    """Of what it reads or makes, what its backward needs."""
    keeps: tuple[Tensor, ...] = ()
    """Made for its own backward alone: statistics, masks, cast weights."""
    weights: tuple[Tensor, ...] = ()
    """The gradients of weights that its backward makes."""
    hands_on: bool = False
    """Its backward passes the gradient on as it is: additions, views; where it reads nothing, as that of its
    weight: one that several operators use."""
    gives_kept: bool = False
    """Its backward hands out as gradients what its forward has made and kept (fused losses)."""
    gives_views: bool = False
    """The gradients it makes come through a view (a linear layer's, over more than two dimensions): one that
    is there already does not take the sum with another, a new tensor does (``can_accumulate_inplace`` in
    torch/csrc/autograd/input_buffer.cpp)."""
    weights_first: bool = False
    """Its backward makes the gradients of weights before those of what it reads: formulas are run in their
    inputs' alphabetical order (tools/autograd/load_derivatives.py), ``mat2`` before ``self``."""
    forward_scratch_bytes: int = 0
    """There while it runs forward, in addition to what it makes."""
    backward_scratch_bytes: int = 0
    forward_kernel_bytes: int = 0
    """What its kernel takes for itself and gives back before it returns."""
    backward_kernel_bytes: int = 0
    backward_sum_bytes: int = 0
    """The same of summing a gradient up to its smaller shape, which the engine does when the operator's
    backward is over (``validate_outputs`` in torch/csrc/autograd/engine.cpp)."""
    backward_parts: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] = ((), (), ())
    """The tensors that ``backward_scratch_bytes``, ``backward_kernel_bytes`` and ``backward_sum_bytes`` are;
    empty for one each."""


class Tape:
    """The operators of one block, in forward order."""

    def __init__(
        self, inputs: tuple[Tensor, ...], operators: tuple[Operator, ...], outputs: tuple[str, ...]
    ) -> None:
        self.inputs = inputs
        self.operators = operators
        self.outputs = outputs
        self._tensors = {tensor.name: tensor for tensor in inputs}
        for operator in operators:
            for tensor in (*operator.makes, *operator.keeps):
                if tensor.name in self._tensors:
                    raise ValueError(f"two tensors of a tape are named {tensor.name!r}")
                self._tensors[tensor.name] = tensor

    def tensor(self, name: str) -> Tensor:
        """The tensor whose storage ``name`` is: its own, or that of which it is a view."""
        found = self._tensors[name]
        while found.view_of is not None:
            found = self._tensors[found.view_of]
        return found

    def named(self, name: str) -> Tensor:
        """The tensor ``name``, a view or not."""
        return self._tensors[name]

    def saved(self, kept: Collection[str] = ()) -> tuple[Tensor, ...]:
        """What forward leaves for backward, each storage once; and ``kept``."""
        names = dict.fromkeys(
            self.tensor(name).name for operator in self.operators for name in operator.saves
        )
        own = {tensor.name for operator in self.operators for tensor in operator.keeps}
        wanted = {*names, *own, *(self.tensor(name).name for name in kept)}
        return tuple(tensor for tensor in self._tensors.values() if tensor.name in wanted)

    @cached_property
    def endings(self) -> tuple[tuple[str, ...], ...]:
        """For each operator the storages that forward has no use for after it."""
        numbers = {operator.name: number for number, operator in enumerate(self.operators)}
        end = len(self.operators) - 1
        last: dict[str, int] = {}
        for number, operator in enumerate(self.operators):
            for tensor in (*operator.makes, *(self._tensors[name] for name in operator.reads)):
                until = number if tensor.held_to is None else max(number, numbers.get(tensor.held_to, end))
                root = self.tensor(tensor.name).name
                last[root] = max(last.get(root, 0), until)
        endings: list[list[str]] = [[] for _ in self.operators]
        for root, number in last.items():
            endings[number].append(root)
        return tuple(map(tuple, endings))
