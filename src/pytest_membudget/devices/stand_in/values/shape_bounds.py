"""How large a result can be whose shape depends on data: what the test assumes, or the worst case.

Sizes of unknown data: none is larger than these, unless the test assumes so.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch

from ....assumptions import assumed
from ....errors import NotAvailable
from ...real.kernels import argument
from .known_shapes import Shape
from .refusals import refusal
from .variants import VARIANT

aten = torch.ops.aten

#: The end of the text of what a test assumes, which no variant changes.
BY_ASSUME: Final = ", by assume()"


class Bound(NamedTuple):
    """Shapes of results, and what was taken for granted for them."""

    shapes: list[Shape]
    taken: str


#: ``rule(args, kwargs)``: the largest shapes of an operator's results, or assumed ones; None if unknown.
BoundRule = Callable[[Sequence[Any], Mapping[str, Any]], Bound | None]


def bound_rule_of(operator: Any) -> BoundRule | None:
    """The rule for ``operator``; None if the shape of its result has no bound."""
    return _BOUNDS.get(operator)


def without_bound(operator: Any) -> NotAvailable:
    """The error to raise for a result of ``operator`` whose shape depends on unknown data."""
    what = f"the shape of what {operator} gives depends on data, and nobody knows what a kernel would compute"
    return refusal(f"{what}. {_what_to_write(operator)}")


def _what_to_write(operator: Any) -> str:
    return _REMEDIES.get(
        operator,
        "Give it a fixed shape where memory is budgeted: torch.where or a mask times the tensor, or the "
        "largest shape it may have.",
    )


def trues(elements: int) -> tuple[int, str]:
    """How many of a mask's ``elements`` are taken to be true, and the text for that."""
    return share_of(elements, "true_fraction", "true everywhere", "true in")


def _nonzero(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Bound:
    count, taken = trues(args[0].numel())
    # transposed, as in known_shapes
    return Bound([Shape((count, args[0].dim()), (1, count), torch.long)], taken)


def _masked_select(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Bound:
    shape = torch.broadcast_shapes(args[0].shape, args[1].shape)
    count, taken = trues(math.prod(shape))
    return Bound([Shape((count,), (1,), args[0].dtype)], taken)


def _unique(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Bound:
    """``_unique2``: (self, sorted, return_inverse, return_counts); the others with other positions."""
    tensor = args[0]
    count, taken = _distinct(tensor.numel(), tensor.dtype)
    return Bound(_flat_results(tensor, count, args[2:3], args[3:4], kwargs), taken)


def _unique_of_two(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Bound:
    """``_unique``: (self, sorted, return_inverse), without counts."""
    bound = _unique(args[:3], kwargs)
    return Bound(bound.shapes[:2], bound.taken)


def _unique_consecutive(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Bound | None:
    """(self, return_inverse, return_counts, dim)."""
    tensor = args[0]
    if argument(args, kwargs, 3, "dim") is not None:
        return None
    count, taken = _distinct(tensor.numel(), None)
    return Bound(_flat_results(tensor, count, args[1:2], args[2:3], kwargs), taken)


def _flat_results(
    tensor: torch.Tensor,
    count: int,
    inverse: Sequence[Any],
    counts: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> list[Shape]:
    """Values, the place of each element among them, and how often each comes."""
    with_inverse = inverse[0] if inverse else kwargs.get("return_inverse", False)
    with_counts = counts[0] if counts else kwargs.get("return_counts", False)
    shape = tuple(tensor.shape) if with_inverse else (0,)
    return [
        Shape((count,), (1,), tensor.dtype),
        Shape(shape, _contiguous(shape), torch.long),
        Shape((count if with_counts else 0,), (1,), torch.long),
    ]


def _unique_dim(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Bound:
    """``unique_dim``: (self, dim, sorted, return_inverse, return_counts).

    What is not asked for comes empty (``compute_unique``: aten/src/ATen/native/cuda/Unique.cu, 00445f53).
    """
    tensor, dim = args[:2]
    length = tensor.shape[dim]
    count, taken = _distinct(length, None)
    sizes = tuple(count if index == dim % tensor.dim() else size for index, size in enumerate(tensor.shape))
    return Bound(
        [
            Shape(sizes, _contiguous(sizes), tensor.dtype),
            Shape((length if argument(args, kwargs, 3, "return_inverse", False) else 0,), (1,), torch.long),
            Shape((count if argument(args, kwargs, 4, "return_counts", False) else 0,), (1,), torch.long),
        ],
        taken,
    )


def _bincount(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Bound | None:
    """(self, weights, minlength)."""
    weights, least = argument(args, kwargs, 1, "weights"), argument(args, kwargs, 2, "minlength", 0)
    bins = assumed("bins")
    if bins is None and not least:
        return None
    taken = f"below {least}, its minlength" if bins is None else f"below {bins}, by assume()"
    count = max(least, bins or 0)
    dtype = torch.long if weights is None else _dtype_of_weighted(weights)
    return Bound([Shape((count,), (1,), dtype)], taken)


def _dtype_of_weighted(weights: torch.Tensor) -> torch.dtype:
    """``_bincount_cuda`` (aten/src/ATen/native/cuda/SummaryOps.cu, 006048e4): floats stay floats."""
    return torch.float32 if weights.dtype is torch.float32 else torch.float64


def _repeat_interleave(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Bound | None:
    """``repeat_interleave.Tensor``: (repeats, output_size)."""
    repeats, each = args[0], assumed("repeats")
    if argument(args, kwargs, 1, "output_size") is not None or each is None:
        return None
    count = math.ceil(each * repeats.numel())
    return Bound([Shape((count,), (1,), repeats.dtype)], f"repeats of {each:g} each on average{BY_ASSUME}")


def _distinct(elements: int, dtype: torch.dtype | None) -> tuple[int, str]:
    """``dtype``: equal ones are found wherever they are, so that no type has more than its values."""
    values = 2 ** (8 * dtype.itemsize) if dtype is not None and dtype.itemsize == 1 else elements
    most = min(elements, 2 if dtype is torch.bool else values)
    return share_of(most, "distinct_fraction", "all different", "different in")


def share_of(elements: int, name: str, worst: str, share: str) -> tuple[int, str]:
    """How many of ``elements`` there are at ``worst``, or by the share assumed as ``name``; and the text."""
    fraction = assumed(name)
    if fraction is None:
        return VARIANT.share(
            elements
        ), f"{worst}, the worst case (pytest_membudget.assume({name}=...) changes that)"
    return math.ceil(fraction * elements), f"{share} {fraction:.4g} of it{BY_ASSUME}"


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(shape[index + 1 :]) for index in range(len(shape)))


_REMEDIES: Mapping[Any, str] = {
    aten.repeat_interleave.Tensor: (
        "Write output_size=... in repeat_interleave, or assume how often each is repeated on average: "
        "with pytest_membudget.assume(repeats=2.0)."
    ),
    aten.bincount.default: (
        "Write minlength=... in bincount (its numbers are taken to be below that), or assume how many bins "
        "there are: with pytest_membudget.assume(bins=64)."
    ),
    torch.ops.aten.one_hot.default: (
        "Write num_classes=... in one_hot, or assume their number: with pytest_membudget.assume(bins=10)."
    ),
}

_BOUNDS: Mapping[Any, BoundRule] = {
    aten.nonzero.default: _nonzero,
    aten.masked_select.default: _masked_select,
    aten._unique.default: _unique_of_two,
    aten._unique2.default: _unique,
    aten.unique_consecutive.default: _unique_consecutive,
    aten.unique_dim.default: _unique_dim,
    aten.bincount.default: _bincount,
    aten.repeat_interleave.Tensor: _repeat_interleave,
}
