"""Writes a tape as PyTorch runs an operator: what it saves and makes follows from types and from who trains.

A value is a tensor of a tape with its dimensions and number type. An operator that reads nothing that needs a
gradient and has no trained weight saves nothing, and makes what needs none: so a frozen first layer comes
out right without being distinguished.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ...components import ACTIVATIONS
from ..local_tensors import LocalTensor
from ..number_types import element_bytes
from ..states import step_temporaries
from ..tape import Operator, Tape, Tensor
from ..terms import Sizes, total_bytes
from .setting import Setting


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the tape that is being written."""

    name: str
    dims: str
    """Names and numbers with spaces between, as ``"b s h"``."""
    kind: str
    """Number type."""
    trains: bool = True
    """It needs a gradient."""


@dataclass(frozen=True, slots=True)
class Backward:
    """What an operator's backward does in addition to making a gradient of each input, and saving."""

    saves: tuple[Value, ...] = ()
    keeps: tuple[Value, ...] = ()
    """Made for backward alone."""
    weights: tuple[Tensor, ...] = ()
    hands_on: bool = False
    gives_views: bool = False
    gives_kept: bool = False
    weights_first: bool = False
    scratch_bytes: int = 0
    """One tensor; ``scratch_parts`` are several."""
    scratch_parts: tuple[int, ...] = ()
    kernel_bytes: int = 0
    kernel_parts: tuple[int, ...] = ()
    sum_parts: tuple[int, ...] = ()


NOTHING = Backward()
#: As in :class:`Tensor`.
Joins = Literal["waits", "ends"] | None

#: Of what is held: the tape's last operator, whichever it will be.
END = Value("", "", "")


class Recorder:
    """Writes one tape: ``sizes`` are those of its layer."""

    def __init__(self, setting: Setting, **sizes: int) -> None:
        self.setting = setting
        self.sizes: Sizes = setting.sizes(**sizes)
        self._inputs: list[Tensor] = []
        self._operators: list[Operator] = []
        self._held: dict[str, str] = {}
        #: bytes and formulas of tensors by dimensions and type: a layer has few
        self._sized: dict[tuple[str, str], tuple[int, str]] = {}

    def input(
        self, name: str, dims: str, kind: str, *, trains: bool = True, component: str = ACTIVATIONS
    ) -> Value:
        """A tensor that is there before the first operator."""
        value = Value(name, dims, kind, trains)
        self._inputs.append(replace(self._tensor(value), component=component))
        return value

    def bytes(self, dims: str, kind: str) -> int:
        """Of a tensor of these dimensions and type."""
        return self._size(dims, kind)[0]

    def bytes_of(self, value: Value) -> int:
        """Of ``value``."""
        return self.bytes(value.dims, value.kind)

    def weight(self, name: str, dims: str, kind: str, *, joins: Joins = None) -> Tensor:
        """The gradient of a trained weight; ``joins`` as in :class:`Tensor`."""
        update = 0 if self.setting.updates is None else self._update_bytes(name, dims, kind)
        return Tensor(name, *self._size(dims, kind), joins=joins, update_bytes=update)

    def _update_bytes(self, name: str, dims: str, kind: str) -> int:
        """What the optimizer takes to step with one gradient at once."""
        assert self.setting.updates is not None
        shape = tuple(self.sizes.bytes(dim) for dim in dims.split())
        tensor = LocalTensor(name, shape, "other", kind)
        return total_bytes(step_temporaries((tensor,), self.setting.updates))

    def run(
        self,
        name: str,
        reads: Sequence[Value],
        dims: str,
        kind: str,
        back: Backward = NOTHING,
        *,
        view_of: Value | None = None,
        makes: Sequence[Value] = (),
        scratch_bytes: int = 0,
        kernel_bytes: int = 0,
    ) -> Value:
        """Write an operator that makes one tensor (and ``makes``), and return it.

        ``back`` holds only where something of ``reads`` or a weight trains.
        """
        trains = any(value.trains for value in reads) or bool(back.weights)
        result = Value(name, dims, kind, trains)
        if not trains:
            back, kept = NOTHING, sum(self.bytes_of(value) for value in back.keeps)
            scratch_bytes += kept
        made = [self._tensor(value, view_of) for value in (result, *makes)]
        scratch, kernel, sums = back.scratch_parts, back.kernel_parts, back.sum_parts
        self._operators.append(
            Operator(
                name,
                tuple(value.name for value in reads),
                tuple(made),
                saves=tuple(value.name for value in back.saves),
                keeps=tuple(self._tensor(value) for value in back.keeps),
                weights=back.weights,
                hands_on=back.hands_on,
                gives_views=back.gives_views,
                gives_kept=back.gives_kept,
                weights_first=back.weights_first,
                forward_scratch_bytes=scratch_bytes,
                backward_scratch_bytes=sum(scratch) if scratch else back.scratch_bytes,
                forward_kernel_bytes=kernel_bytes,
                backward_kernel_bytes=sum(kernel) if kernel else back.kernel_bytes,
                backward_sum_bytes=sum(sums) if sums else 0,
                backward_parts=(scratch, kernel, sums),
            )
        )
        return result

    def hold(self, *values: Value, until: Value | None = None) -> None:
        """A local variable holds ``values`` until the operator that made ``until`` (the last one so far)."""
        operator = self._operators[-1].name if until is None else until.name
        for value in values:
            self._held[value.name] = operator

    def tape(self, *outputs: Value) -> Tape:
        """What was written."""
        self._held = {name: until or self._operators[-1].name for name, until in self._held.items()}
        operators = tuple(map(self._with_held, self._operators))
        inputs = tuple(map(self._as_held, self._inputs))
        return Tape(inputs, operators, tuple(value.name for value in outputs))

    def _with_held(self, operator: Operator) -> Operator:
        if not any(tensor.name in self._held for tensor in operator.makes):
            return operator
        return replace(operator, makes=tuple(map(self._as_held, operator.makes)))

    def _as_held(self, tensor: Tensor) -> Tensor:
        until = self._held.get(tensor.name)
        return tensor if until is None else replace(tensor, held_to=until)

    def _tensor(self, value: Value, view_of: Value | None = None) -> Tensor:
        return Tensor(
            value.name,
            *self._size(value.dims, value.kind),
            view_of=None if view_of is None else view_of.name,
            needs_grad=value.trains,
            component=ACTIVATIONS,
        )

    def _size(self, dims: str, kind: str) -> tuple[int, str]:
        """Bytes of a tensor of these dimensions and type, and how they come about."""
        found = self._sized.get((dims, kind))
        if found is None:
            element = element_bytes(kind)
            size_bytes = -(-self.sizes.bytes(dims) * element.numerator // element.denominator)
            found = self._sized[dims, kind] = size_bytes, "*".join([*dims.split(), str(element)])
        return found


def wider(*kinds: str) -> str:
    """The type that PyTorch computes in when these meet: the one with more bits (no fp16 meets bf16)."""
    return max(kinds, key=element_bytes)


def trained(values: Iterable[Value]) -> tuple[Value, ...]:
    """Those that need a gradient."""
    return tuple(value for value in values if value.trains)
