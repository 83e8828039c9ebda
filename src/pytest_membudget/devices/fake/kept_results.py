"""Results whose storage stays larger than they are: losses that CUDA shrinks in place to their mean.

``binary_cross_entropy`` and ``soft_margin_loss`` make every element's loss, reduce them and ``resize_`` the
losses to the one number; ``resize_`` to a smaller shape keeps the storage. Read in
aten/src/ATen/native/Loss.cpp and cuda/Loss.cu of pytorch/pytorch 2.6.0; the fake kernels give a tensor of one
number and no more. ``mse_loss`` and ``smooth_l1_loss`` have their result made for every element by the
iterator that they are structured on, before it is the output of the reduction (seen on 2.15).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch

aten = torch.ops.aten

KEPT: Final = frozenset({
    aten.binary_cross_entropy.default, aten.soft_margin_loss.default, aten.mse_loss.default,
    aten.smooth_l1_loss.default,
})  # fmt: skip


def in_storage_of_all(
    run: Callable[..., torch.Tensor], result: torch.Tensor, given: torch.Tensor, target: torch.Tensor
) -> torch.Tensor:
    """``result`` in a storage for every element's loss; ``run`` calls a fake kernel."""
    shape = torch.broadcast_shapes(given.shape, target.shape)
    if result.shape == shape:
        return result
    return run(aten.resize_.default, run(aten.new_empty.default, result, shape), result.shape)
