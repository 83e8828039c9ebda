"""Reductions' own memory, as the rules of ``kernel_memory`` have it, for tensors."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from ...hardware.gpus import Gpu
from ...kernels import reductions
from ...kernels.reductions import NumberTypes


def reduction_buffers(
    tensor: torch.Tensor, reduced: Iterable[int], numbers: NumberTypes, gpu: Gpu
) -> list[int]:
    """Bytes of the buffer and of the semaphores, to reduce ``tensor`` over dimensions ``reduced``."""
    layout = reductions.Layout(tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset()))
    return reductions.reduction_buffers(layout, frozenset(reduced), numbers, gpu)
