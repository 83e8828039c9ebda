"""Copies of matrices that cuBLAS cannot read as they lie, made by PyTorch's matrix products.

Read in ATen/native/cuda/cuBlasCommonArgs.h of the CUDA wheels 2.11.0 and 2.15.0
(``prepare_matrix_for_cublas``) and aten/src/ATen/native/cuda/Blas.cpp (pytorch/pytorch of 2025:
``prepare_batch_matrix_for_cublas``, ``baddbmm_out_cuda_impl``, ``addmv_out_cuda``). cuBLAS's workspace is
another matter: it is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch

from ...hardware.gpus import Gpu
from .kernel_layouts import Args, Rule, first_tensor, is_dense, tensor_bytes

aten = torch.ops.aten


def product(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``mm``, ``addmm``: the two last tensors, and a result that was handed in."""
    factors = [tensor for tensor in args[:3] if isinstance(tensor, torch.Tensor)][-2:]
    return [_matrix_copy(matrix) for matrix in (*factors, first_tensor(result))]


def _matrix_copy(matrix: torch.Tensor) -> int:
    """An expanded gradient, a column of every second number: copied. Rows or columns with gaps: not."""
    if is_dense(matrix):
        return 0
    (rows, columns), (row, column) = matrix.shape, matrix.stride()
    if (row == 1 and column >= max(1, rows)) or (column == 1 and row >= max(1, columns)):
        return 0
    return tensor_bytes(matrix)


def batch_product(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``bmm``, ``baddbmm``: the two last tensors, and a result that was handed in."""
    first, second = [tensor for tensor in args[:3] if isinstance(tensor, torch.Tensor)][-2:]
    output = first_tensor(result)
    if output.numel() == 0 or first.shape[2] == 0:
        return []
    (_, rows, columns), (_, row, column) = output.shape, output.stride()
    copies = []
    by_rows = False
    if not (row == 1 and (columns == 1 or column >= max(1, rows))):
        by_rows = column == 1 and (rows == 1 or row >= max(1, columns))
        copies = [] if by_rows else [tensor_bytes(output)]
    inner = first.shape[2]
    one, other = (second, first) if by_rows else (first, second)
    m, n = (columns, rows) if by_rows else (rows, columns)
    copies += [_batch_copy(one, by_rows, m, inner), _batch_copy(other, by_rows, inner, n)]
    return copies


def _batch_copy(batch: torch.Tensor, by_rows: bool, fast: int, leading: int) -> int:
    one, other = batch.stride(2 if by_rows else 1), batch.stride(1 if by_rows else 2)
    if (one == 1 and other >= max(1, fast)) or (other == 1 and one >= max(1, leading)):
        return 0
    if batch.is_contiguous() and one and other:
        return 0
    return tensor_bytes(batch)


def matrix_vector(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``mv``, ``addmv``: the two last tensors."""
    matrix, vector = [tensor for tensor in args[:3] if isinstance(tensor, torch.Tensor)][-2:]
    copies = [0 if vector.stride(0) or vector.is_contiguous() else tensor_bytes(vector)]
    (rows, columns), (row, column) = matrix.shape, matrix.stride()
    if (row == 1 and column >= max(1, rows)) or (column == 1 and row >= max(1, columns)):
        return copies
    return [*copies, 0 if matrix.is_contiguous() else tensor_bytes(matrix)]


PRODUCT_RULES: Final[Mapping[Any, Rule]] = {
    aten.mm.default: product,
    aten.addmm.default: product,
    aten.addmm_.default: product,
    aten._int_mm.default: product,
    aten.bmm.default: batch_product,
    aten.baddbmm.default: batch_product,
    aten.baddbmm_.default: batch_product,
    aten.mv.default: matrix_vector,
    aten.addmv.default: matrix_vector,
}
