"""``searchsorted`` and ``bucketize`` of a Python number, with the tensors that ATen makes of it.

ATen makes a tensor on the card that counts as a number (``searchsorted_scalar_tensor`` in
native/BucketizationUtils.h, 2.15), and then casts it by ``copy_``: a kernel in Python, as ours around
``copy_``, cannot be given such a tensor. Here the same requests are made of a tensor without that mark.
"""

from typing import Any

import torch

from ...real.kernels import Kernel, original_kernel

_SEARCH = torch.ops.aten.searchsorted.Tensor
_SEARCH_OUT = torch.ops.aten.searchsorted.Tensor_out
#: By the operator's name: the search of a tensor that does it, and which argument the number is.
_OF_NUMBERS = {
    "aten::searchsorted.Scalar": (_SEARCH, 1),
    "aten::searchsorted.Scalar_out": (_SEARCH_OUT, 1),
    "aten::bucketize.Scalar": (torch.ops.aten.bucketize.Tensor, 0),
}


def number_search(name: str) -> Kernel | None:
    """A kernel for the operator called ``name``; None where it is no search of a number."""
    if name not in _OF_NUMBERS:
        return None
    operator, position = _OF_NUMBERS[name]
    kernel = original_kernel(operator.name(), operator)

    def search(*args: Any, **kwargs: Any) -> Any:
        number, boundaries = args[position], args[1 - position]
        # kept until the end, as there
        tensor = torch.scalar_tensor(number, dtype=_type_of(number), device=boundaries.device)
        common = torch.result_type(boundaries, number)
        if tensor.dtype is not boundaries.dtype:
            boundaries = boundaries.contiguous().to(common)
        ordered = (boundaries, tensor.to(common)) if position else (tensor.to(common), boundaries)
        return kernel(*ordered, *args[2:], **kwargs)

    return search


def _type_of(number: Any) -> torch.dtype:
    """``c10::scalar_to_tensor`` (ATen/ScalarOps.h, 2.15)."""
    if isinstance(number, bool):
        return torch.bool
    return torch.int64 if isinstance(number, int) else torch.float64
