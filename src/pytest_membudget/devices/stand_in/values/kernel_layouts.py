"""Sizes and layouts of tensors, as the rules for kernels' own memory ask for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch

from ....hardware.gpus import Gpu

Args: TypeAlias = Sequence[Any]
Rule: TypeAlias = Callable[[Args, Mapping[str, Any], Any, Gpu], list[int]]

FP32 = 4
INT64 = 8


def argument(args: Args, kwargs: Mapping[str, Any], position: int, name: str, default: Any = None) -> Any:
    """An operator's argument; a default is not handed over to a dispatch mode."""
    return args[position] if len(args) > position else kwargs.get(name, default)


def tensor_bytes(tensor: torch.Tensor) -> int:
    """Bytes of a dense tensor of these sizes."""
    return tensor.numel() * tensor.element_size()


def contiguous_copy_bytes(*tensors: torch.Tensor | None) -> list[int]:
    """What ``tensor.contiguous()`` takes for each of ``tensors``: nothing where it is so already."""
    return [0 if tensor is None or tensor.is_contiguous() else tensor_bytes(tensor) for tensor in tensors]


def contiguous_inputs(*positions: int) -> Rule:
    """The rule of a kernel that reads the arguments at ``positions`` contiguous, and copies them first."""

    def rule(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
        return contiguous_copy_bytes(*(args[index] for index in positions if index < len(args)))

    return rule


def is_dense(tensor: torch.Tensor) -> bool:
    """``is_non_overlapping_and_dense``: some order of the dimensions makes it contiguous."""
    if tensor.is_contiguous():
        return True
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True


def accumulation_bytes(dtype: torch.dtype) -> int:
    """Size of one number of ``acc_type`` on CUDA: halves are summed in fp32."""
    return FP32 if dtype in (torch.float16, torch.bfloat16) else dtype.itemsize


def is_half(dtype: torch.dtype) -> bool:
    """fp16 or bf16."""
    return dtype in (torch.float16, torch.bfloat16)


def first_tensor(result: Any) -> torch.Tensor:
    """An operator's result, or the first of its results."""
    tensor: torch.Tensor = result[0] if isinstance(result, list | tuple) else result
    return tensor
