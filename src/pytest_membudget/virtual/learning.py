"""What each operator does to what is known of values.

Operators on small known tensors run for real on the host, beside the fake run; on uniform tensors of any
size, elementwise operators and reductions run on one element. In-place ones write to the host values too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from .known_values import KnownValues, Scalar, is_whole, most_elements

aten = torch.ops.aten

#: ``lesson(known, args, kwargs, result)`` notes what a call of one operator says about values.
Lesson = Callable[[KnownValues, Sequence[Any], Mapping[str, Any], Any], None]

#: Operators whose result has one value throughout, which this function gives for their arguments.
_FILLED: dict[Any, Callable[[Sequence[Any]], Scalar]] = {
    aten.zeros.default: lambda args: 0,
    aten.zeros_like.default: lambda args: 0,
    aten.new_zeros.default: lambda args: 0,
    aten.ones.default: lambda args: 1,
    aten.ones_like.default: lambda args: 1,
    aten.new_ones.default: lambda args: 1,
    aten.full.default: lambda args: args[1],
    aten.full_like.default: lambda args: args[1],
    aten.new_full.default: lambda args: args[2],
    aten.scalar_tensor.default: lambda args: args[0],
}

#: Operators that overwrite their first argument whatever it held, and the value they write.
_OVERWRITTEN: dict[Any, Callable[[KnownValues, Sequence[Any]], Scalar | torch.Tensor | None]] = {
    aten.zero_.default: lambda known, args: 0,
    aten.fill_.Scalar: lambda known, args: args[1],
    aten.fill_.Tensor: lambda known, args: known.of(args[1]),
    aten.copy_.default: lambda known, args: known.of(args[1]),
}

#: Reductions that give a uniform tensor's own value, and copies; elementwise operators are tagged as such.
_OF_ONE_ELEMENT = frozenset({
    aten.clone.default, aten._to_copy.default, aten._pin_memory.default,
    aten.all.default, aten.all.dim, aten.all.dims, aten.any.default, aten.any.dim, aten.any.dims,
    aten.amax.default, aten.amin.default, aten.max.default, aten.min.default, aten.mean.default, aten.mean.dim,
})  # fmt: skip
_SUMS = frozenset({aten.sum.default, aten.sum.dim_IntList})

#: What a healthy run gives where the values are unknown: a run whose values are not finite has no memory
#: figure of its own. ``x == x`` and ``abs(x) != inf`` are the two halves of ``torch.isfinite``.
_HEALTHY: dict[Any, Callable[[Sequence[Any]], bool | None]] = {
    aten.isnan.default: lambda args: False,
    aten.isinf.default: lambda args: False,
    aten.isposinf.default: lambda args: False,
    aten.isneginf.default: lambda args: False,
    aten.eq.Tensor: lambda args: True if args[0] is args[1] else None,
    aten.ne.Tensor: lambda args: False if args[0] is args[1] else None,
    aten.eq.Scalar: lambda args: False if args[1] == float("inf") else None,
    aten.ne.Scalar: lambda args: True if args[1] == float("inf") else None,
}

#: Written to without a change: a healthy run overflows nowhere.
_UNSCALE = aten._amp_foreach_non_finite_check_and_unscale_.default

#: Inputs larger than this are not computed with, uniform or not.
_MOST_INPUT_ELEMENTS = 2**20


def lesson_of(operator: Any) -> Lesson | None:
    """What a call of ``operator`` says about values; None if nothing."""
    if not isinstance(operator, torch._ops.OpOverload) or operator.is_view:
        return None
    if operator in _FILLED:
        return partial(_fill, _FILLED[operator])
    if (draw := _DRAWN.get(operator.overloadpacket)) is not None:
        return partial(draw, written_arguments(operator))
    if operator._schema.is_mutable:
        return partial(_write, operator, written_arguments(operator))
    if operator.namespace != "aten" or torch.Tag.nondeterministic_seeded in operator.tags:
        return None
    if operator.name().startswith(("aten::empty", "aten::new_empty")):
        return None
    elementwise = torch.Tag.pointwise in operator.tags or operator in _OF_ONE_ELEMENT
    return partial(_compute, operator, elementwise, _HEALTHY.get(operator))


def written_arguments(operator: Any) -> tuple[int | str, ...]:
    """Positions of the arguments that ``operator`` writes to, and names of those passed by keyword."""
    return tuple(
        argument.name if argument.kwarg_only else position
        for position, argument in enumerate(operator._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )


def copy_from_host(known: KnownValues, tensor: torch.Tensor, values: torch.Tensor) -> None:
    """``tensor`` was made from the real ``values``: token ids, a table in the test."""
    if values.device.type == "cpu" and values.numel() <= most_elements(values.dtype):
        known.keep(tensor, values.clone(memory_format=torch.contiguous_format))


def _fill(
    rule: Callable[[Sequence[Any]], Scalar],
    known: KnownValues,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    result: Any,
) -> None:
    known.note(result, rule(args))


def _write(
    func: Any,
    written: tuple[int | str, ...],
    known: KnownValues,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    result: Any,
) -> None:
    targets = list(_targets(written, args, kwargs))
    if func is _UNSCALE:
        targets = args[0]
    elif func in _OVERWRITTEN and is_whole(args[0]):
        return _overwrite(known, args[0], _OVERWRITTEN[func](known, args))
    if not any(known.of(target) is not None for target in targets):
        return None
    if func is _UNSCALE or not _written_on_host(func, targets, known, args, kwargs):
        for target in targets:
            known.forget(target)
    return None


def _targets(
    written: tuple[int | str, ...], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[torch.Tensor]:
    for place in written:
        value = kwargs.get(place) if isinstance(place, str) else args[place] if place < len(args) else None
        for target in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(target, torch.Tensor):
                yield target


def _overwrite(known: KnownValues, target: torch.Tensor, values: Scalar | torch.Tensor | None) -> None:
    if values is None:
        known.forget(target)
    elif not isinstance(values, torch.Tensor):
        known.note(target, values)
    elif target.numel() <= most_elements(target.dtype):
        known.keep(target, torch.empty(tuple(target.shape), dtype=target.dtype).copy_(values))
    elif values.numel() == 1 or not any(values.stride()):
        known.note(target, values.flatten()[0].to(target.dtype).item())
    else:
        known.forget(target)


def _written_on_host(
    func: Any,
    targets: Sequence[torch.Tensor],
    known: KnownValues,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> bool:
    host = _HostArguments(known, targets)
    if not host.take(args, kwargs):
        return False
    try:
        func(*host.args, **host.kwargs)
    except Exception:
        return False  # not to be run on the host: the values are unknown from here on
    return True


def _compute(
    func: Any,
    elementwise: bool,
    healthy: Callable[[Sequence[Any]], bool | None] | None,
    known: KnownValues,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    result: Any,
) -> None:
    if not _first_is_known(known, args) or not (
        _computed_on_host(func, known, args, kwargs, result)
        or ((elementwise or func in _SUMS) and _computed_on_one(func, known, args, kwargs, result))
    ):
        value = healthy(args) if healthy is not None else None
        if value is not None:
            known.note(result, value)


def _first_is_known(known: KnownValues, args: Sequence[Any]) -> bool:
    for value in args:
        if isinstance(value, torch.Tensor):
            return known.of(value) is not None
        if isinstance(value, (list, tuple)) and value and isinstance(value[0], torch.Tensor):
            return known.of(value[0]) is not None
    return True


def _computed_on_host(
    func: Any, known: KnownValues, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any
) -> bool:
    results = result if isinstance(result, (list, tuple)) else (result,)
    fakes = [one for one in results if isinstance(one, FakeTensor)]
    if len(fakes) < len(results) or any(one.numel() > most_elements(one.dtype) for one in fakes):
        return False
    host = _HostArguments(known)
    if not host.take(args, kwargs):
        return False
    try:
        values = func(*host.args, **host.kwargs)
    except Exception:
        return False  # not to be run on the host: the values stay unknown, and a read of them is listed
    for fake, one in zip(fakes, values if isinstance(values, (list, tuple)) else (values,), strict=True):
        if isinstance(one, torch.Tensor) and one.dtype is fake.dtype and one.shape == fake.shape:
            known.keep(fake, one, assumed=host.assumed)
    return True


def _computed_on_one(
    func: Any, known: KnownValues, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any
) -> bool:
    host = _HostArguments(known, uniform=True)
    if not isinstance(result, FakeTensor) or not host.take(args, kwargs):
        return False
    try:
        value = func(*host.args, **host.kwargs).item()
    except Exception:
        return False
    if func in _SUMS:
        value *= args[0].numel() // max(result.numel(), 1)
    known.note(result, value, assumed=host.assumed)
    return True


class _HostArguments:
    """The arguments of an operator with host tensors for fake ones, and the host for a device.

    ``targets`` are written to; with ``uniform`` each tensor is one element that stands for all.
    """

    def __init__(
        self, known: KnownValues, targets: Sequence[torch.Tensor] = (), *, uniform: bool = False
    ) -> None:
        self.assumed = False
        self.args: list[Any] = []
        self.kwargs: dict[str, Any] = {}
        self._known = known
        self._targets = {id(target) for target in targets}
        self._uniform = uniform

    def take(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Fill ``args`` and ``kwargs``; False if a value is not known, or there are too many."""
        tensors = [one for value in (*args, *kwargs.values()) for one in _tensors_in(value)]
        self.assumed = any(self._known.is_assumed(tensor) for tensor in tensors)
        try:
            self.args = [self._on_host(value) for value in args]
            self.kwargs = {name: self._on_host(value) for name, value in kwargs.items()}
        except _NotKnown:
            return False
        return True

    def _on_host(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, (list, tuple)):
            return [self._on_host(one) for one in value]
        return torch.device("cpu") if isinstance(value, torch.device) else value

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        found: Any = None
        if id(tensor) in self._targets:
            found = self._known.writable(tensor, assumed=self.assumed)
        elif self._uniform:
            value = self._known.uniform(tensor)
            if value is not None:
                found = torch.full((1,) * tensor.dim(), value, dtype=tensor.dtype)
        elif tensor.numel() <= _MOST_INPUT_ELEMENTS:
            found = self._known.of(tensor)
        if found is None:
            raise _NotKnown
        return found  # type: ignore[no-any-return]


class _NotKnown(Exception):  # noqa: N818 - control flow, not an error
    """A value that an operator needs is not known."""


def _tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _tensors_in(one)
