"""Shapes that depend on data, where the data is known.

A mask made from shapes has a known count, so ``x[mask]`` has a known shape. ``unknown_shapes`` has what is
taken where the values are unknown.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from .known_values import KnownValues
from .on_host import NotKnown, OnHost

aten = torch.ops.aten


class Shape(NamedTuple):
    """Sizes, strides in elements and type of a result; it lies where its operator's first argument does."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype


#: ``rule(known, args, kwargs)`` gives the shapes of an operator's results; None if they are not known.
Rule = Callable[[KnownValues, Sequence[Any], Mapping[str, Any]], "list[Shape] | None"]


def shape_rule_of(operator: Any) -> Rule | None:
    """The rule for an operator whose shapes depend on data; None for any other."""
    if operator in _RULES:
        return _RULES[operator]
    return partial(_as_computed, operator) if operator in _COMPUTED else None


def _nonzero(known: KnownValues, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Shape] | None:
    count = _count(known, args[0])
    # nonzero_cuda_out_impl (aten/src/ATen/native/cuda/Nonzero.cu, 2.13) fills a transposed tensor
    return None if count is None else [Shape((count, args[0].dim()), (1, count), torch.long)]


def _masked_select(known: KnownValues, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Shape] | None:
    values, mask = args[:2]
    count = _count(known, mask)
    if count is None:
        return None
    shape = torch.broadcast_shapes(values.shape, mask.shape)
    # each element of the mask selects as many of the broadcast shape
    selected = count * (math.prod(shape) // max(mask.numel(), 1))
    return [Shape((selected,), (1,), values.dtype)]


def _as_computed(
    operator: Any, known: KnownValues, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[Shape] | None:
    host = OnHost(known)
    try:
        results = host.run(operator, args, kwargs)
    except NotKnown:
        return None
    return [
        Shape(tuple(one.shape), one.stride(), one.dtype)
        for one in (results if isinstance(results, tuple) else (results,))
    ]


def _count(known: KnownValues, tensor: torch.Tensor) -> int | None:
    value = known.uniform(tensor)
    if value is not None:
        return tensor.numel() if value else 0
    values = known.of(tensor)
    return None if values is None else int(torch.count_nonzero(values))


_RULES: dict[Any, Rule] = {
    aten.nonzero.default: _nonzero,
    aten.masked_select.default: _masked_select,
}

#: All of their arguments must be known; the shapes are those of the host's own results.
_COMPUTED = frozenset({
    aten._unique.default, aten._unique2.default, aten.unique_consecutive.default, aten.unique_dim.default,
    aten.unique_dim_consecutive.default, aten.bincount.default, aten.repeat_interleave.Tensor,
})  # fmt: skip
