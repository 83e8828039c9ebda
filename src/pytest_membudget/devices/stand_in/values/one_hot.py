"""``one_hot`` on cards: without ``num_classes`` the largest number, which nobody may know, decides the shape.

As ``one_hot`` of aten/src/ATen/native/Onehot.cpp (000c5f01): zeros, and ones written into them.
"""

from __future__ import annotations

from typing import Any

import torch

from .shape_bounds import without_bound
from .unknown_shapes import UnknownShapes

ONE_HOT = torch.ops.aten.one_hot.default


class OneHot:
    """The operator; ``shapes`` knows the largest number."""

    def __init__(self, shapes: UnknownShapes) -> None:
        self._shapes = shapes

    def register(self) -> torch.library.Library:
        """From here on ``one_hot`` of CUDA tensors is this, for as long as the library lives."""
        library = torch.library.Library("aten", "IMPL")
        for dispatch_key in ("AutogradCUDA", "CUDA"):
            library.impl("one_hot", self, dispatch_key)
        return library

    def __call__(self, tensor: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
        """Class numbers (...) of int64 to ones among zeros (..., ``num_classes``)."""
        if tensor.dtype is not torch.long:
            raise RuntimeError(
                f"one_hot is only applicable to index tensor of type LongTensor, but it is {tensor.dtype}"
            )
        if num_classes < 1 and (num_classes != -1 or tensor.numel() == 0):
            raise RuntimeError(f"one_hot: num_classes should be positive, and it is {num_classes}")
        if num_classes == -1:
            num_classes = self._classes(tensor)
        result = torch.zeros((*tensor.shape, num_classes), dtype=torch.long, device=tensor.device)
        return result.scatter_(-1, tensor.unsqueeze(-1), 1)

    def _classes(self, tensor: Any) -> int:
        tensor.max()  # its result and what its kernel takes
        largest = self._shapes.largest(ONE_HOT, tensor)
        if largest is None:
            raise without_bound(ONE_HOT)
        return largest + 1
