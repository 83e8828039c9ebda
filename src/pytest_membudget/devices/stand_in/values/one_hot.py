"""``one_hot`` on the virtual device: zeros, and ones written into them.

For fake tensors PyTorch compares with every class instead, into a mask in addition to the result
(aten/src/ATen/native/Onehot.cpp, 000c5f01). Without ``num_classes`` the largest number decides the shape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import DynamicOutputShapeException

from .unknown_shapes import UnknownShapes

ONE_HOT = torch.ops.aten.one_hot.default


class OneHot:
    """The operator; ``shapes`` knows the largest number; ``refuse`` is called if nobody does."""

    def __init__(self, shapes: UnknownShapes, refuse: Callable[[Any], None]) -> None:
        self._shapes = shapes
        self._refuse = refuse

    def register(self) -> torch.library.Library:
        """From here on ``one_hot`` of CUDA tensors is this, for as long as the library lives.

        Without autograd (inference mode) the operator arrives whole at the mode, which calls this itself.
        """
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
            self._refuse(ONE_HOT)
            raise DynamicOutputShapeException(ONE_HOT)
        return largest + 1
