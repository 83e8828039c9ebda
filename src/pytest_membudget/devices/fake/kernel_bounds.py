"""Upper bounds of hidden device memory where no exact rule is known: by operator, with the reason in words.

Read in aten/src/ATen/native/cuda/ of pytorch/pytorch 2.6.0: Nonzero.cu, Indexing.cu, UniqueCub.cu,
SummaryOps.cu, TensorModeKernel.cu, SpectralOps.cpp, linalg/BatchLinearAlgebra.cpp, and in cudnn/MHA.cpp,
cudnn/LossCTC.cpp and sparse/cuda/. CUB's storage: nvidia-cuda-cccl 13.0.85.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import torch

from ...hardware.gpus import Gpu
from ...units import KIB
from .attention_calls import cudnn_forward_bound
from .kernel_convolutions import CONVOLUTION_BOUNDS
from .kernel_layouts import INT64, Args, Rule, argument, contiguous_copy_bytes, tensor_bytes
from .kernel_losses import alignments_backward_bound
from .kernel_scans import scan_storage_bound
from .kernel_sums import extreme

aten = torch.ops.aten

#: Bytes at most; 0 where nothing is hidden this time, None where no bound is known.
Bound: TypeAlias = Callable[[Args, Mapping[str, Any], Any, Gpu], "int | None"]


@dataclass(frozen=True, slots=True)
class Unmodelled:
    """What of an operator's own memory is not counted."""

    reason: str
    """A clause for people, as in ``its workspace is not counted``."""
    bound: Bound


def none_known(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> int | None:
    """No bound is known."""
    return None


def selection_storage_bytes(count: int) -> int:
    """At most what CUB takes to select among ``count``: two words for each tile of 256 or more."""
    return int(16 * (32 + math.ceil(count / 256)) + 2 * KIB)


def sort_storage_bytes(count: int, key: int, value: int) -> int:
    """At most what CUB takes to sort ``count`` pairs: spare ones, and the counts of digits of each tile."""
    return count * (key + value + 1) + 64 * KIB


def places_of_ones(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> int:
    """``nonzero``: (self): a contiguous copy, a count, CUB's storage."""
    tensor: torch.Tensor = args[0]
    return sum(contiguous_copy_bytes(tensor)) + 512 + selection_storage_bytes(tensor.numel())


def selected(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> int:
    """``masked_select``: (self, mask): the mask written out, and where its ones are in each dimension."""
    shape = torch.broadcast_shapes(args[0].shape, args[1].shape)
    count: int = math.prod(shape)
    places: int = INT64 * len(shape) * result.numel()
    return count + places + 512 + selection_storage_bytes(count)


def put_by_mask(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> int:
    """(self, indices, values, accumulate): where the masks' ones are; to add up, sorted too."""
    masks = [one for one in args[1] if one is not None and one.dtype in (torch.bool, torch.uint8)]
    if not masks:
        return 0
    adds = argument(args, kwargs, 3, "accumulate", False) or torch.are_deterministic_algorithms_enabled()
    if not adds and args[2].numel() == 1 and len(args[1]) == len(masks) == 1:
        return 0  # masked_fill_
    count: int = max(mask.numel() for mask in masks)
    dims: int = sum(mask.dim() for mask in masks)
    found = INT64 * dims * count + 512 + selection_storage_bytes(count)
    if not adds:
        return found
    ordered = 4 * INT64 * count + sort_storage_bytes(count, INT64, INT64)
    return found + ordered + 2 * tensor_bytes(args[0])


def small_keys(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> int:
    """Rows of over 4,096 keys of one or two bytes: before capability 9.0 CUB's counts hang on occupancy.

    Up to five times as many thread blocks as fit at once, 16 a multiprocessor, with 256 counts of 8 bytes.
    """
    tensor = args[0]
    dim = argument(args, kwargs, 1, "dim", -1)
    narrow = tensor.element_size() < 4 and gpu.capability < (9, 0)
    if not narrow or tensor.dim() == 0 or tensor.shape[dim] <= 4096:
        return 0
    return 5 * 16 * gpu.multiprocessor_count * 256 * 8


def unique_values(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> int:
    """Sorted values with their positions, runs of equal ones and CUB's storage."""
    count, number = args[0].numel(), args[0].element_size()
    held: int = count * (3 * number + 5 * INT64)
    return held + sort_storage_bytes(count, number, INT64) + selection_storage_bytes(count)


def long_modes(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> int:
    """``mode``: (self, dim): rows over 2,048 are sorted one by one by Thrust."""
    tensor, dim = args[0], argument(args, kwargs, 1, "dim", -1)
    length = tensor.shape[dim] if tensor.dim() else 1
    if length <= 2048:
        return 0
    number = tensor.element_size()
    held: int = length * (2 * INT64 + number)
    return held + sort_storage_bytes(length, number, INT64)


def histogram(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> int:
    """``histc`` and ``bincount``: (self, ...): the smallest and the largest of all, one after the other."""
    largest = torch.empty((), dtype=args[0].dtype, device="meta")
    return 2 * 512 + sum(extreme(args[:1], {}, largest, gpu))


_CUDNN = Unmodelled("cuDNN's workspace is not counted", none_known)
_ENGINE = Unmodelled("the workspace of cuDNN's engine is not counted", none_known)
_SPLIT = Unmodelled("what cuDNN splits the keys with is not counted", cudnn_forward_bound)
_RECURRENT = Unmodelled(
    "cuDNN's workspace and dropout state are not counted, and its reserve is inferred from figures of 2017",
    none_known,
)
_SOLVER = Unmodelled("the solver's workspace and its copies are not counted", none_known)
_CUFFT = Unmodelled("cuFFT's workspace and copies are not counted", none_known)
_SPARSE = Unmodelled("cuSPARSE's and Thrust's buffers are not counted", none_known)
_ATTENTION = Unmodelled("the kernel's accumulators are not counted", none_known)
_SCAN = Unmodelled("the storage of CUB's scan is not counted", scan_storage_bound)
_UNIQUE = Unmodelled("sorted copies and CUB's storage are not counted", unique_values)
_MASK = Unmodelled("where the masks' ones are is not counted", put_by_mask)
_COUNTS = Unmodelled("CUB's storage for its counts is not counted", small_keys)
_HISTOGRAM = Unmodelled("the search for the largest is not counted", histogram)
_GROUPED = Unmodelled("the kernel's tables of matrices are not counted", none_known)
_NOT_KNOWN_YET = Unmodelled("what the kernel takes for itself has not been read", none_known)


def _summed(rule: Rule) -> Bound:
    def bound(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> int:
        return sum(rule(args, kwargs, result, gpu))

    return bound


def _all(reason: Unmodelled, *names: str) -> dict[Any, Unmodelled]:
    """For every overload of those operators that this release has."""
    packets = [getattr(aten, name) for name in names if hasattr(aten, name)]
    return {getattr(packet, overload): reason for packet in packets for overload in packet.overloads()}


BOUNDS: Final[Mapping[Any, Unmodelled]] = {
    **{
        operator: Unmodelled("cuDNN's workspace is not counted", _summed(rule))
        for operator, rule in CONVOLUTION_BOUNDS.items()
    },
    aten.nonzero.default: Unmodelled("CUB's storage is not counted", places_of_ones),
    aten.masked_select.default: Unmodelled("where the mask's ones are is not counted", selected),
    aten.mode.default: Unmodelled("Thrust's sorts of long rows are not counted", long_modes),
    **_all(_MASK, "index_put", "index_put_", "_index_put_impl_"),
    **_all(_COUNTS, "sort"),
    **_all(_UNIQUE, "_unique2", "unique_dim", "unique_consecutive", "unique_dim_consecutive"),
    **_all(_HISTOGRAM, "histc", "bincount"),
    **_all(_SCAN, "cumsum", "cumprod", "logcumsumexp", "_logcumsumexp"),
    **_all(Unmodelled("sums over blanks are not counted", alignments_backward_bound), "_ctc_loss_backward"),
    **_all(_SPLIT, "_scaled_dot_product_cudnn_attention"),
    **_all(_ENGINE, "_cudnn_attention_forward", "_cudnn_attention_backward"),
    **_all(_CUDNN, "_cudnn_ctc_loss"),
    **_all(_ATTENTION, "_flash_attention_forward", "_flash_attention_backward"),
    **_all(_ATTENTION, "_efficient_attention_forward", "_efficient_attention_backward"),
    **_all(_RECURRENT, "_cudnn_rnn"),
    **_all(_CUDNN, "_cudnn_rnn_backward"),
    **_all(_CUFFT, "_fft_c2c", "_fft_r2c", "_fft_c2r"),
    **_all(_GROUPED, "_grouped_mm", "_scaled_grouped_mm"),
    **_all(_SPARSE, "_coalesce", "_sparse_addmm", "_sparse_sparse_matmul", "sparse_sampled_addmm"),
    **_all(_SOLVER, "linalg_cholesky_ex", "linalg_inv_ex", "linalg_lu_factor_ex", "linalg_lu"),
    **_all(_SOLVER, "linalg_qr", "linalg_eig", "_linalg_eigh", "_linalg_svd", "_linalg_det"),
    **_all(_SOLVER, "_linalg_slogdet", "_linalg_solve_ex", "linalg_lstsq", "linalg_solve_triangular"),
    **_all(_SOLVER, "linalg_lu_solve", "linalg_ldl_factor_ex", "linalg_ldl_solve", "cholesky_solve"),
    **_all(_SOLVER, "cholesky_inverse", "linalg_householder_product", "ormqr", "geqrf"),
    **_all(_SOLVER, "triangular_solve", "linalg_matrix_exp"),
    **_all(_NOT_KNOWN_YET, "segment_reduce", "_segment_reduce_backward", "index_reduce", "nonzero_static"),
}
