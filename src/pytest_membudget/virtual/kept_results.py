"""Results whose storage stays larger than they are: losses that CUDA shrinks in place to their mean.

``binary_cross_entropy`` and ``soft_margin_loss`` make every element's loss, reduce them and ``resize_`` the
losses to the one number; ``resize_`` to a smaller shape keeps the storage. Read in
aten/src/ATen/native/Loss.cpp and cuda/Loss.cu of pytorch/pytorch 2.6.0; the fake kernels give a tensor of one
number and no more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch

aten = torch.ops.aten

KEPT: Final = frozenset({aten.binary_cross_entropy.default, aten.soft_margin_loss.default})


def in_storage_of_all(
    run: Callable[..., torch.Tensor], result: torch.Tensor, losses_of: torch.Tensor
) -> torch.Tensor:
    """``result`` in a storage for a loss of each element of ``losses_of``; ``run`` calls a fake kernel."""
    if result.shape == losses_of.shape:
        return result
    return run(aten.resize_.default, run(aten.empty_like.default, losses_of), result.shape)
