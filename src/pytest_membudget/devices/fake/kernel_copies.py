"""Device memory of copies between host and device, where the bytes cannot go over as they lie.

Read in aten/src/ATen/native/cuda/Copy.cu (``copy_requires_temporaries``, ``copy_kernel_cuda``) and
TensorConversions.cpp (``_to_copy``) of pytorch/pytorch 2.6.0. Copies on one device, between types too, are
one kernel and take nothing; nor do ``cat`` and ``stack``, whose lists travel as kernel arguments (Shape.cu).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch

from ...hardware.gpus import Gpu
from .kernel_layouts import Args, Rule, argument, is_dense

aten = torch.ops.aten


def copy(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``copy_``: (self, src, non_blocking)."""
    return copy_temporaries(args[0], args[1], argument(args, kwargs, 2, "non_blocking", False))


def conversion(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``_to_copy``: (self, dtype=, layout=, device=, pin_memory=, non_blocking=, memory_format=)."""
    return copy_temporaries(result, args[0], kwargs.get("non_blocking", False))


def copy_temporaries(destination: torch.Tensor, source: torch.Tensor, non_blocking: bool) -> list[int]:
    """What goes over is contiguous and of one type; types are converted on the host if it blocks."""
    to_cuda, from_cuda = (tensor.device.type != "cpu" for tensor in (destination, source))
    if to_cuda == from_cuda or destination.numel() == 0 or _goes_as_it_lies(destination, source):
        return []
    count, same_type = destination.numel(), destination.dtype == source.dtype
    if to_cuda:
        if destination.is_contiguous() and (same_type or not non_blocking):
            return []
        return [count * (source if non_blocking else destination).element_size()]
    expanded = source.expand(destination.shape)
    if not non_blocking:
        return [0 if expanded.is_contiguous() else count * source.element_size()]
    converted = 0 if same_type else source.numel() * destination.element_size()
    # a conversion keeps the order of a dense tensor, and makes another one contiguous
    in_order = expanded.is_contiguous() or (
        not same_type and source.shape == destination.shape and not is_dense(source)
    )
    return [converted, 0 if in_order else count * destination.element_size()]


def _goes_as_it_lies(destination: torch.Tensor, source: torch.Tensor) -> bool:
    if destination.dtype != source.dtype or destination.shape != source.shape:
        return False
    if not is_dense(destination):
        return False
    strides = zip(destination.shape, destination.stride(), source.stride(), strict=True)
    return all(size == 1 or one == other for size, one, other in strides)


COPY_RULES: Final[Mapping[Any, Rule]] = {
    aten.copy_.default: copy,
    aten._to_copy.default: conversion,
}
