"""Device memory that running sums and their kin take for themselves and give back before they return.

Read in aten/src/ATen/native/ReduceOps.cpp, cuda/ScanKernels.cpp and cuda/ScanUtils.cuh of pytorch/pytorch
2.6.0, and in ATen/cuda/cub.cuh of the CUDA wheels 2.11.0 and 2.15.0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import torch

from ...hardware.gpus import Gpu
from ...units import round_up
from .kernel_layouts import Args, Rule, argument, contiguous_copy_bytes, contiguous_inputs, first_tensor

aten = torch.ops.aten

#: Numbers in a tile of CUB's scan, at least: cub/device/dispatch/tuning/tuning_scan.cuh of nvidia-cuda-cccl
#: 13.0.85 has no policy with fewer for types of up to 16 bytes.
_FEWEST_A_TILE = 256


def running_sum(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``cumsum``, ``cumprod``: the input in the result's type, and contiguous."""
    tensor, output = args[0], first_tensor(result)
    converted = tensor.numel() * output.element_size()
    cast = converted if tensor.dtype != output.dtype else 0
    return [cast, 0 if tensor.is_contiguous() else converted]


def running_extreme(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``cummax``, ``cummin``: the input contiguous, and each result where it is not so."""
    return contiguous_copy_bytes(args[0], *result)


def scan_storage_bound(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> int:
    """CUB's storage for a scan of one row: a state for each tile. 0 for many rows, which CUB does not do."""
    tensor = args[0]
    dim = argument(args, kwargs, 1, "dim", 0)
    if tensor.numel() == 0 or tensor.dim() == 0 or tensor.numel() != tensor.shape[dim]:
        return 0
    tiles = 32 + math.ceil(tensor.numel() / _FEWEST_A_TILE)
    state = 2 * max(8, first_tensor(result).element_size())
    return round_up(state * tiles, 256) + 2 * 512


SCAN_RULES: Final[Mapping[Any, Rule]] = {
    aten.cumsum.default: running_sum,
    aten.cumprod.default: running_sum,
    aten._logcumsumexp.default: contiguous_inputs(0),
    aten.logcumsumexp.default: contiguous_inputs(0),
    aten._cummax_helper.default: contiguous_inputs(0, 1, 2),
    aten._cummin_helper.default: contiguous_inputs(0, 1, 2),
    aten.cummax.default: running_extreme,
    aten.cummin.default: running_extreme,
}
