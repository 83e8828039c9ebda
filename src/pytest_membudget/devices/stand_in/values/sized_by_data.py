"""Operators whose results have sizes that depend on data.

Of each: the sizes where the data is known, as of ``x[mask]`` for a mask made from shapes; else the largest,
or what the test assumes; and what ATen's own code reads of the card to size its results, read in
aten/src/ATen/native/cuda/{Nonzero,Unique,UniqueCub,SummaryOps}.cu and native/Repeat.h (2.15).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch

from ....assumptions import assumed
from ....errors import NotAvailable
from ...real.kernels import argument
from .known_values import KnownValues
from .on_host import NotKnown, OnHost
from .refusals import refusal
from .variants import VARIANT

aten = torch.ops.aten

#: The end of the text of what a test assumes, which no variant changes.
BY_ASSUME: Final = ", by assume()"

_INT_MAX: Final = 2**31 - 1
#: Elements that are counted at once, of a tensor with more than fit an int.
_CHUNK: Final = 2**30


class Shape(NamedTuple):
    """Sizes, strides in elements and type of a result; it lies where its operator's first argument does."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype


class Bound(NamedTuple):
    """Shapes of results, and what was taken for granted for them."""

    shapes: list[Shape]
    taken: str


class SizedByData(NamedTuple):
    """What there is to say of such an operator."""

    operator: Any
    #: of (args, kwargs): the largest shapes of the results, or assumed ones; None if unknown
    bound: Callable[[Sequence[Any], Mapping[str, Any]], Bound | None]
    #: of (args, shapes): the answers to the copies that it makes, in their order; None if it makes none
    copies: Callable[[Sequence[Any], Sequence[Shape]], list[bytes]] | None
    #: of (known, args): the shapes of the results where enough is known; None if all arguments must be
    by_count: Callable[[KnownValues, Sequence[Any]], list[Shape] | None] | None = None

    def known(self, known: KnownValues, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Shape] | None:
        """The shapes of its results; None if they are not known."""
        if self.by_count is not None:
            return self.by_count(known, args)
        try:
            results = OnHost(known).run(self.operator, args, kwargs)
        except NotKnown:
            return None
        return [
            Shape(tuple(one.shape), one.stride(), one.dtype)
            for one in (results if isinstance(results, tuple) else (results,))
        ]


def sized_by_data(operator: Any) -> SizedByData | None:
    """What there is to say of ``operator``; None for any whose sizes follow from shapes."""
    return _BY_OPERATOR.get(operator)


def without_bound(operator: Any) -> NotAvailable:
    """The error to raise for a result of ``operator`` whose shape depends on unknown data."""
    what = f"the shape of what {operator} gives depends on data, and nobody knows what a kernel would compute"
    remedy = _REMEDIES.get(
        operator,
        "Give it a fixed shape where memory is budgeted: torch.where or a mask times the tensor, or the "
        "largest shape it may have.",
    )
    return refusal(f"{what}. {remedy}")


def trues(elements: int) -> tuple[int, str]:
    """How many of a mask's ``elements`` are taken to be true, and the text for that."""
    return share_of(elements, "true_fraction", "true everywhere", "true in")


def _nonzero(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Bound:
    count, taken = trues(args[0].numel())
    return Bound(_places(args[0], count), taken)


def _known_nonzero(known: KnownValues, args: Sequence[Any]) -> list[Shape] | None:
    count = _count(known, args[0])
    return None if count is None else _places(args[0], count)


def _places(tensor: torch.Tensor, count: int) -> list[Shape]:
    """``nonzero_cuda_out_impl`` (aten/src/ATen/native/cuda/Nonzero.cu, 2.13) fills a transposed tensor."""
    return [Shape((count, tensor.dim()), (1, count), torch.long)]


def _copies_of_nonzero(args: Sequence[Any], shapes: Sequence[Shape]) -> list[bytes]:
    """An int for each chunk, in one copy: ``nonzero_cuda_out_impl``."""
    count, elements = shapes[0].sizes[0], args[0].numel()
    if elements < _INT_MAX:
        return [_number(count)]
    parts = []
    for _ in range(-(-elements // _CHUNK)):
        parts.append(min(count, _CHUNK).to_bytes(4, "little"))
        count -= min(count, _CHUNK)
    return [b"".join(parts)]


def _masked_select(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Bound:
    shape = torch.broadcast_shapes(args[0].shape, args[1].shape)
    count, taken = trues(math.prod(shape))
    return Bound([Shape((count,), (1,), args[0].dtype)], taken)


def _known_masked_select(known: KnownValues, args: Sequence[Any]) -> list[Shape] | None:
    values, mask = args[:2]
    count = _count(known, mask)
    if count is None:
        return None
    shape = torch.broadcast_shapes(values.shape, mask.shape)
    # each element of the mask selects as many of the broadcast shape
    selected = count * (math.prod(shape) // max(mask.numel(), 1))
    return [Shape((selected,), (1,), values.dtype)]


def _count(known: KnownValues, tensor: torch.Tensor) -> int | None:
    value = known.uniform(tensor)
    if value is not None:
        return tensor.numel() if value else 0
    values = known.of(tensor)
    return None if values is None else int(torch.count_nonzero(values))


def _unique(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Bound:
    """``_unique2``: (self, sorted, return_inverse, return_counts); the others with other positions."""
    tensor = args[0]
    count, taken = _distinct(tensor.numel(), tensor.dtype)
    return Bound(_flat_results(tensor, count, args[2:3], args[3:4], kwargs), taken)


def _copies_of_unique(args: Sequence[Any], shapes: Sequence[Shape]) -> list[bytes]:
    """How many there are; of booleans, how many are true (``UniqueCub<bool>``)."""
    if args[0].dtype is not torch.bool:
        return _copied_length(args, shapes)
    return [_number(1 if shapes[0].sizes[0] > 1 else 0)]


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


def _copies_of_unique_dim(args: Sequence[Any], shapes: Sequence[Shape]) -> list[bytes]:
    return [_number(shapes[0].sizes[args[1]])]


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


def _copies_of_bincount(args: Sequence[Any], shapes: Sequence[Shape]) -> list[bytes]:
    """The smallest number, which bytes are not asked for, and the largest: ``_bincount_cuda_template``."""
    largest = _number(shapes[0].sizes[0] - 1)
    return [largest] if args[0].dtype is torch.uint8 else [_number(0), largest]


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


def _copies_of_repeat_interleave(args: Sequence[Any], shapes: Sequence[Shape]) -> list[bytes]:
    """The sum of the repeats, and whether none is negative."""
    return [_number(shapes[0].sizes[0]), _number(1)]


def _copied_length(args: Sequence[Any], shapes: Sequence[Shape]) -> list[bytes]:
    return [_number(shapes[0].sizes[0])]


def _number(value: int) -> bytes:
    """Little-endian, so that the first bytes do for a smaller type."""
    return value.to_bytes(8, "little")


def _distinct(elements: int, dtype: torch.dtype | None) -> tuple[int, str]:
    """``dtype``: equal ones are found wherever they are, so that no type has more than its values."""
    values = 2 ** (8 * dtype.itemsize) if dtype is not None and dtype.itemsize == 1 else elements
    most = min(elements, 2 if dtype is torch.bool else values)
    return share_of(most, "distinct_fraction", "all different", "different in")


def share_of(elements: int, name: str, worst: str, share: str) -> tuple[int, str]:
    """How many of ``elements`` there are at ``worst``, or by the share assumed as ``name``; and the text."""
    fraction = assumed(name)
    if fraction is None:
        count = VARIANT.share(elements, may_be_none=name == "true_fraction")
        if count < elements:
            return count, f"{share} {count} of its elements"
        return count, f"{worst}, the worst case (pytest_membudget.assume({name}=...) changes that)"
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

_BY_OPERATOR: Mapping[Any, SizedByData] = {
    one.operator: one
    for one in (
        SizedByData(aten.nonzero.default, _nonzero, _copies_of_nonzero, _known_nonzero),
        SizedByData(aten.masked_select.default, _masked_select, None, _known_masked_select),
        SizedByData(aten._unique.default, _unique_of_two, _copies_of_unique),
        SizedByData(aten._unique2.default, _unique, _copies_of_unique),
        SizedByData(aten.unique_consecutive.default, _unique_consecutive, _copied_length),
        SizedByData(aten.unique_dim.default, _unique_dim, _copies_of_unique_dim),
        SizedByData(aten.unique_dim_consecutive.default, lambda args, kwargs: None, _copies_of_unique_dim),
        SizedByData(aten.bincount.default, _bincount, _copies_of_bincount),
        SizedByData(aten.repeat_interleave.Tensor, _repeat_interleave, _copies_of_repeat_interleave),
    )
}
