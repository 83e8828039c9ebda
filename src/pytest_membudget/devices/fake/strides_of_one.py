"""Strides of dimensions of size one, which fake tensors give otherwise than PyTorch does.

By the stride of a batch of one PyTorch recognises channels last (``is_channels_last_strides_2d``,
c10/core/MemoryFormat.h), and so which kernels and copies follow. Read in 2.15:

- ``reshape`` and ``view`` take strides from ``computeStride`` (aten/src/ATen/TensorUtils.cpp), fake tensors
  from a reference in Python (``_reshape_view_helper``, torch/_refs/__init__.py);
- a number among the operands keeps TensorIterator from its fast ways (``compute_fast_setup_type``,
  aten/src/ATen/TensorIterator.cpp), but not fake tensors (``make_fast_binary_impl``,
  torch/_subclasses/fake_impls.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch

aten = torch.ops.aten

VIEWS: Final = frozenset({aten.view.default, aten._unsafe_view.default})
#: Fake tensors give their results without asking the operator's own function of shapes.
SHORT_CUTS: Final = frozenset({aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor})

#: Dimensions of images and of volumes, with those of the batch and of channels.
_WITH_CHANNELS: Final = (4, 5)


def view_of(tensor: torch.Tensor, shape: Sequence[int]) -> tuple[torch.Size, tuple[int, ...]] | None:
    """Sizes and strides of ``tensor.view(shape)``; None where fake tensors have the same."""
    if 1 not in shape or tensor.layout is not torch.strided or tensor.is_contiguous():
        return None
    view = _on_meta(tensor).view(shape)
    return view.shape, view.stride()


def strides_of(
    operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any
) -> tuple[int, ...] | None:
    """The strides of ``operator``'s result; None where ``result``, a fake tensor, has them already."""
    if result.dim() not in _WITH_CHANNELS or 1 not in result.shape or result.is_contiguous():
        return None
    strides: tuple[int, ...] = operator(*(_on_meta(operand) for operand in args), **kwargs).stride()
    return None if strides == result.stride() else strides


def _on_meta(operand: Any) -> torch.Tensor:
    """A number as the tensor that C++ makes of it: the meta device's references would leave it out, too."""
    if not isinstance(operand, torch.Tensor):
        return torch.empty((), device="meta")
    return torch.empty_strided(operand.shape, operand.stride(), dtype=operand.dtype, device="meta")
