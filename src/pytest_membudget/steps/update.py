"""From a loss to new parameters: backward, then unscale, clip and step."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


def backward(loss: Tensor) -> None:
    """``loss.backward()``, typed."""
    loss.backward()


def update(
    model: nn.Module,
    optimizer: Optimizer,
    max_grad_norm: float | None = None,
    scaler: torch.amp.GradScaler | None = None,
) -> None:
    """Unscale and clip where requested, and step; then free the gradients."""
    if max_grad_norm is not None:
        if scaler is not None:
            scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
    if scaler is None:
        optimizer.step()
    else:
        scaler.step(optimizer)
        scaler.update()
    optimizer.zero_grad(set_to_none=True)
