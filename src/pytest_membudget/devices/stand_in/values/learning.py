"""What each operator does to what is known of values.

Operators on small known tensors are also computed on the host; on uniform tensors of any
size, elementwise operators and reductions run on one element. In-place ones write to the host values too.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from ....assumptions import assumed_value
from ....results.varied import FINITE
from ...real.kernels import written_arguments
from .drawing import drawing_of
from .known_values import KnownValues
from .on_host import NotKnown, OnHost
from .variants import VARIANT

aten = torch.ops.aten

#: ``lesson(known, args, kwargs, result)`` notes what a call of one operator says about values.
Lesson = Callable[[KnownValues, Sequence[Any], Mapping[str, Any], Any], None]

#: Operators that overwrite their first argument whatever it held; where the value is in their arguments.
_OVERWRITES = {aten.zero_.default: None, aten.fill_.Scalar: 1, aten.fill_.Tensor: 1, aten.copy_.default: 1}

#: Those of them that need no other tensor.
_FROM_NOTHING = frozenset({aten.zero_.default, aten.fill_.Scalar})

#: Reductions that give a uniform tensor's own value; elementwise operators are tagged as such.
_OF_ONE_ELEMENT = frozenset({
    aten.mean.dim,
    aten.all.default, aten.all.dim, aten.all.dims, aten.any.default, aten.any.dim, aten.any.dims,
    aten.amax.default, aten.amin.default, aten.max.default, aten.min.default,
})  # fmt: skip
#: Those that add up what each element gives.
_SUMS = frozenset({aten.sum.dim_IntList, aten.count_nonzero.dim_IntList})

#: What a healthy run gives where the values are unknown: a run whose values are not finite has no memory
#: separate figure. ``x == x`` and ``abs(x) != inf`` are the two halves of ``torch.isfinite``.
_HEALTHY: dict[Any, Callable[[Sequence[Any]], bool | None]] = {
    aten.isnan.default: lambda args: False,
    aten.isposinf.default: lambda args: False,
    aten.isneginf.default: lambda args: False,
    aten.eq.Tensor: lambda args: True if args[0] is args[1] else None,
    aten.ne.Tensor: lambda args: False if args[0] is args[1] else None,
    aten.eq.Scalar: lambda args: False if args[1] == float("inf") else None,
    aten.ne.Scalar: lambda args: True if args[1] == float("inf") else None,
}

#: One operand of this value decides the result, whatever the other one is: a mask that is full already, a
#: sequence that has ended.
_DECIDES: dict[Any, bool] = {
    aten.bitwise_or.Tensor: True,
    aten.bitwise_or_.Tensor: True,
    aten.logical_or.default: True,
    aten.bitwise_and.Tensor: False,
    aten.bitwise_and_.Tensor: False,
    aten.logical_and.default: False,
}

#: Write to places that their indices say: to all, where those are a permutation.
_TO_PLACES = frozenset({aten.scatter_.src, aten.index_copy_.default, aten._index_put_impl_.default})

#: Writes to gradients, and to ``found_inf``, which does not change: a healthy run overflows nowhere.
_UNSCALE = aten._amp_foreach_non_finite_check_and_unscale_.default

#: Changes memory, not values.
_RESIZING = "aten::resize"

#: Changes which memory a tensor shows, and nothing that lies there: a deep copy is made so.
_SHOWS_OTHER = "aten::set_"


def lesson_of(operator: Any) -> Lesson | None:
    """What a call of ``operator`` says about values; None if nothing."""
    if operator.name().partition(".")[0] == _SHOWS_OTHER:
        return None
    draw = drawing_of(operator)
    can_run = torch.Tag.nondeterministic_seeded not in operator.tags
    if operator._schema.is_mutable:
        return _Writes(operator, can_run and not operator.name().startswith(_RESIZING), draw)
    return _Computes(operator) if can_run else draw


class _Writes:
    """The lesson of an operator that writes to arguments."""

    def __init__(self, operator: Any, can_run: bool, draw: Lesson | None) -> None:
        self._operator = operator
        self._can_run = can_run
        self._draw = draw
        self._written = written_arguments(operator)
        self._overwrites = operator in _OVERWRITES
        self._value_at = _OVERWRITES.get(operator)
        self._decides = _DECIDES.get(operator)
        #: whether it says nothing where nothing is known of any argument
        self.needs_known = operator not in _FROM_NOTHING and operator not in _DECIDES and draw is None

    def __call__(
        self, known: KnownValues, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any
    ) -> None:
        if self._overwrites and known.is_whole(args[0]):
            _overwrite(known, args, self._value_at)
            return
        targets = args[0] if self._operator is _UNSCALE else list(self._targets(args, kwargs))
        if not any(known.knows(target) for target in targets) or not self._run(known, targets, args, kwargs):
            for target in targets:
                known.forget(target)
            if self._operator in _TO_PLACES:
                self._write_all(known, args, kwargs)
        if self._decides is not None and known.is_whole(args[0]):
            _note_decided(known, args, self._decides, args[0])
        if self._draw is not None:
            self._draw(known, args, kwargs, result)

    def _write_all(self, known: KnownValues, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Note what is written to a tensor of which nothing is known, if that is all of it."""
        target, written = args[0], []
        if not known.is_whole(target) or target.numel() > known.most_elements(target.dtype):
            return
        for before in (0, 1):
            known.note(target, before)
            values = known.of(target) if self._run(known, [target], args, kwargs) else None
            written.append(None if values is None else values.clone())
        if written[0] is None or written[1] is None or not written[0].equal(written[1]):
            known.forget(target)

    def _run(
        self,
        known: KnownValues,
        targets: Sequence[torch.Tensor],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> bool:
        if not self._can_run or self._operator is _UNSCALE:
            return False
        try:
            OnHost(known, targets).run(self._operator, args, kwargs)
        except NotKnown:
            return False
        return True

    def _targets(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[torch.Tensor]:
        for position, name in self._written:
            value = args[position] if position < len(args) else kwargs.get(name)
            for target in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(target, torch.Tensor):
                    yield target


class _Computes:
    """The lesson of an operator whose result can be computed from what is known."""

    def __init__(self, operator: Any) -> None:
        self._operator = operator
        is_pointwise = torch.Tag.pointwise in operator.tags
        self._of_one = is_pointwise or operator in _OF_ONE_ELEMENT | _SUMS
        self._healthy = _HEALTHY.get(operator)
        self._decides = _DECIDES.get(operator)
        #: whether it says nothing where the first tensor among the arguments is unknown
        self.needs_first = self.needs_known = self._healthy is None and self._decides is None

    def __call__(
        self, known: KnownValues, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any
    ) -> None:
        if first_is_known(known, args):
            if self._on_host(known, args, kwargs, result):
                return
            if self._of_one and self._on_one_element(known, args, kwargs, result):
                return
        if self._decides is not None:
            _note_decided(known, args, self._decides, result)
        if self._healthy is not None and (value := self._healthy(args)) is not None:
            is_open = assumed_value(bool) is None
            if is_open:
                VARIANT.unknown.add(FINITE)
            known.note(result, value, assumed=is_open and VARIANT.is_odd)

    def _on_host(
        self, known: KnownValues, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any
    ) -> bool:
        results = result if isinstance(result, (list, tuple)) else (result,)
        if any(
            isinstance(one, torch.Tensor) and one.numel() > known.most_elements(one.dtype) for one in results
        ):
            return False
        host = OnHost(known)
        try:
            values = host.run(self._operator, args, kwargs)
        except NotKnown:
            return False
        values = values if isinstance(values, (list, tuple)) else (values,)
        for tensor, one in zip(results, values, strict=True):
            if not isinstance(tensor, torch.Tensor):  # a gradient that nobody asked for, and kept by none
                continue
            if known.storages.follows(tensor) and one.dtype is tensor.dtype and one.shape == tensor.shape:
                known.keep(tensor, one, assumed=host.assumed)
        return True

    def _on_one_element(
        self, known: KnownValues, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any
    ) -> bool:
        if not isinstance(result, torch.Tensor) or not known.storages.follows(result):
            return False
        host = OnHost(known, uniform=True)
        try:
            value = host.run(self._operator, args, kwargs).item()
        except NotKnown:
            return False
        if self._operator in _SUMS:
            value *= args[0].numel() // max(result.numel(), 1)
        known.note(result, value, assumed=host.assumed)
        return True


def first_is_known(known: KnownValues, args: Sequence[Any]) -> bool:
    """Whether the first tensor among ``args``, or of a list that comes first, is known; True if none is."""
    for value in args:
        if isinstance(value, torch.Tensor):
            return known.knows(value)
        if isinstance(value, (list, tuple)) and value and isinstance(value[0], torch.Tensor):
            return known.knows(value[0])
    return True


def _note_decided(known: KnownValues, args: Sequence[Any], value: bool, result: torch.Tensor) -> None:
    if not known.knows(result) and (result.dtype is torch.bool or not value):
        for operand in args:
            if known.uniform(operand) == value:
                known.note(result, value, assumed=known.is_assumed(operand))


def _overwrite(known: KnownValues, args: Sequence[Any], value_at: int | None) -> None:
    target, value = args[0], 0 if value_at is None else args[value_at]
    if not isinstance(value, torch.Tensor):
        known.note(target, value)
        return
    values, assumed = known.of(value), known.is_assumed(value)
    if values is not None and target.numel() <= known.most_elements(target.dtype):
        written = torch.empty(tuple(target.shape), dtype=target.dtype).copy_(values)
        known.keep(target, written, assumed=assumed)
    elif values is not None and not any(values.stride()):  # one value, expanded
        known.note(target, values.flatten()[0].to(target.dtype).item(), assumed=assumed)
    else:
        known.forget(target)
