"""What ATen's own code reads of the card to size a result, for a result of the sizes that are wanted.

Read in aten/src/ATen/native/cuda/{Nonzero,Unique,UniqueCub,SummaryOps}.cu and native/Repeat.h (2.15).
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .known_shapes import Shape

aten = torch.ops.aten

#: ``counted(args, shapes)`` gives the answers to the copies that an operator makes, in their order.
Counted = Callable[[Sequence[Any], Sequence[Shape]], list[bytes]]

_INT_MAX = 2**31 - 1
#: Elements that are counted at once, of a tensor with more than fit an int.
_CHUNK = 2**30


def _nonzero(args: Sequence[Any], shapes: Sequence[Shape]) -> list[bytes]:
    """An int for each chunk, in one copy: ``nonzero_cuda_out_impl``."""
    count, elements = shapes[0].sizes[0], args[0].numel()
    if elements < _INT_MAX:
        return [_number(count)]
    parts = []
    for _ in range(-(-elements // _CHUNK)):
        parts.append(min(count, _CHUNK).to_bytes(4, "little"))
        count -= min(count, _CHUNK)
    return [b"".join(parts)]


def _unique(args: Sequence[Any], shapes: Sequence[Shape]) -> list[bytes]:
    """How many there are; of booleans, how many are true (``UniqueCub<bool>``)."""
    count = shapes[0].sizes[0]
    if args[0].dtype is not torch.bool:
        return [_number(count)]
    return [_number(1 if count > 1 else 0)]


def _unique_consecutive(args: Sequence[Any], shapes: Sequence[Shape]) -> list[bytes]:
    return [_number(shapes[0].sizes[0])]


def _unique_dim(args: Sequence[Any], shapes: Sequence[Shape]) -> list[bytes]:
    return [_number(shapes[0].sizes[args[1]])]


def _bincount(args: Sequence[Any], shapes: Sequence[Shape]) -> list[bytes]:
    """The smallest number, which bytes are not asked for, and the largest: ``_bincount_cuda_template``."""
    largest = _number(shapes[0].sizes[0] - 1)
    return [largest] if args[0].dtype is torch.uint8 else [_number(0), largest]


def _repeat_interleave(args: Sequence[Any], shapes: Sequence[Shape]) -> list[bytes]:
    """The sum of the repeats, and whether none is negative."""
    return [_number(shapes[0].sizes[0]), _number(1)]


def _number(value: int) -> bytes:
    """Little-endian, so that the first bytes do for a smaller type."""
    return value.to_bytes(8, "little")


COUNTED: dict[Any, Counted] = {
    aten.nonzero.default: _nonzero,
    aten.nonzero.out: _nonzero,
    aten._unique.default: _unique,
    aten._unique2.default: _unique,
    aten.unique_consecutive.default: _unique_consecutive,
    aten.unique_dim.default: _unique_dim,
    aten.unique_dim_consecutive.default: _unique_dim,
    aten.bincount.default: _bincount,
    aten.repeat_interleave.Tensor: _repeat_interleave,
}
