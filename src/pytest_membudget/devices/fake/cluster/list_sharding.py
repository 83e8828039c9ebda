"""DTensor's sharding of an operator on lists of tensors: computed once for identical tensors.

An optimizer's ``_foreach`` operators go through hundreds of parameters, of which few differ. torch works out
each, and keeps what it found for the whole list only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def install_list_sharding() -> None:
    """Give DTensor each kind of element once."""
    from torch.distributed.tensor import _sharding_prop

    own: Any = _sharding_prop
    kind = own.ShardingPropagator
    original = kind.propagate_op_sharding_non_cached

    def propagate(propagator: Any, schema: Any) -> Any:
        short = _shortened(schema, own.OpSchema)
        if short is None:
            return original(propagator, schema)
        few, kinds = short
        found = original(propagator, few)
        if found.needs_redistribute:  # arguments are to be changed, each its own
            return original(propagator, schema)
        if found.output_spec is not None:
            found.output_spec = tuple(found.output_spec[kind] for kind in kinds)
        return found

    kind.propagate_op_sharding_non_cached = propagate


def _shortened(schema: Any, schema_of: Any) -> tuple[Any, list[int]] | None:
    """``schema`` with one element of each kind, and the kind of each; None where there is nothing to gain.

    Elements are of a kind if all their arguments are equal: shapes, placements, numbers and their types.
    """
    if not schema.op.name().startswith("aten::_foreach_") or schema.kwargs_schema:
        return None
    lists = [argument for argument in schema.args_schema if isinstance(argument, (list, tuple))]
    if not lists or len({len(each) for each in lists}) != 1:
        return None
    first: dict[Any, int] = {}
    kinds = [
        first.setdefault((element, *map(type, element)), len(first)) for element in zip(*lists, strict=True)
    ]
    if len(first) == len(kinds):
        return None
    kept = [kinds.index(kind) for kind in range(len(first))]
    arguments = tuple(
        _chosen(argument, kept) if isinstance(argument, (list, tuple)) else argument
        for argument in schema.args_schema
    )
    return schema_of(schema.op, arguments, schema.kwargs_schema, schema.schema_info), kinds


def _chosen(elements: Sequence[Any], places: list[int]) -> Sequence[Any]:
    few = [elements[place] for place in places]
    return tuple(few) if isinstance(elements, tuple) else few
