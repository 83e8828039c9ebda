"""``one_hot`` on cards: without ``num_classes`` the largest number decides the shape."""

from functools import partial
from typing import Any

import torch

from ...real.kernels import kernel_of
from .sized_by_data import without_bound
from .unknown_shapes import UnknownShapes

ONE_HOT = torch.ops.aten.one_hot.default
_KEYS = ("AutogradCUDA", "CUDA")


def follow_one_hot(shapes: UnknownShapes) -> torch.library.Library:
    """Give ``one_hot`` of CUDA tensors its ``num_classes``, for as long as the result lives."""
    library = torch.library.Library("aten", "IMPL")
    for key in _KEYS:
        own = partial(
            kernel_of("aten::one_hot", key), torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))
        )
        library.impl("one_hot", partial(_run, shapes, own), key)
    return library


def _run(shapes: UnknownShapes, kernel: Any, tensor: torch.Tensor, num_classes: int = -1) -> Any:
    """PyTorch's own, but for the largest class number, which it would read."""
    if num_classes == -1 and tensor.numel() and tensor.dtype is torch.long:
        tensor.max()  # its result and what its kernel takes
        largest = shapes.largest(ONE_HOT, tensor)
        if largest is None:
            raise without_bound(ONE_HOT)
        num_classes = largest + 1
    return kernel(tensor, num_classes)
