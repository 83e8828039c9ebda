"""Among how many ``argmax``, ``sort`` and their like choose: what they give are whole numbers below that."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ...real.kernels import argument

aten = torch.ops.aten

#: Operators that choose along one dimension: its position among their arguments, what it is where it is not
#: given (None: all of the tensor), and which of their results is the choice (None: the only one).
_ALONG: Mapping[Any, tuple[int, int | None, int | None]] = {
    aten.topk.default: (2, -1, 1),
    aten.max.dim: (1, None, 1),
    aten.min.dim: (1, None, 1),
    aten.argmax.default: (1, None, None),
    aten.argmin.default: (1, None, None),
    aten.sort.stable: (2, -1, 1),
    aten.kthvalue.default: (2, -1, 1),
    aten.median.dim: (1, None, 1),
    aten.mode.default: (1, -1, 1),
}
#: Those that find a place between others: their position among the arguments.
_BETWEEN: Mapping[Any, int] = {aten.searchsorted.Tensor: 0, aten.bucketize.Tensor: 1}

#: Those that choose several in a row, of which no two are the same.
ARE_DIFFERENT = frozenset({aten.topk.default, aten.sort.stable})

#: Whether an operator gives such numbers.
has_options: Callable[[Any], bool] = {*_ALONG, *_BETWEEN}.__contains__


def choice_of(operator: Any, result: Any) -> torch.Tensor:
    """Of what ``operator`` gives the tensor that holds them."""
    which = _ALONG[operator][2] if operator in _ALONG else None
    chosen: torch.Tensor = result if which is None else result[which]
    return chosen


def dimension_of(operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> int | None:
    """Along which dimension ``operator`` chooses; None: in all of its tensor."""
    position, default, _ = _ALONG[operator]
    dim: int | None = argument(args, kwargs, position, "dim", default)
    return None if dim is None or not args[0].dim() else dim % args[0].dim()


def options_of(operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """Among how many ``operator`` chooses."""
    if operator in _BETWEEN:
        places: torch.Tensor = args[_BETWEEN[operator]]
        return places.shape[-1] + 1
    dim = dimension_of(operator, args, kwargs)
    tensor: torch.Tensor = args[0]
    return tensor.numel() if dim is None else tensor.shape[dim]
