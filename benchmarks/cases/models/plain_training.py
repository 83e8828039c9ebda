"""Cross entropy and AdamW in single operators, re-created as CS336's second assignment hands them out.

The same release as ``dense_transformer``. AdamW goes from parameter to parameter and replaces both moments
by fresh tensors; what its loop still names belongs to the parameter before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean loss of ``[..., vocab]`` logits for ``[...]`` targets."""
    losses = -_log_softmax(logits)
    return torch.mean(torch.gather(losses, -1, targets.unsqueeze(-1)))


def _log_softmax(x: torch.Tensor) -> torch.Tensor:
    largest = torch.max(x, dim=-1, keepdim=True)[0]
    x = x - largest
    return x - torch.log(torch.sum(torch.exp(x), dim=-1, keepdim=True))


class PlainAdamW(torch.optim.Optimizer):
    """AdamW out of place: besides the states, at its peak several copies of one parameter."""

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        super().__init__(parameters, {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01})

    def step(self, closure: Any = None) -> None:
        """One update of every parameter that has a gradient."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad = p.grad.data
                state = self.state[p]
                rate, (beta1, beta2) = group["lr"], group["betas"]
                steps = state.get("t", 1)
                corrected = rate * (math.sqrt(1 - beta2**steps) / (1 - beta1**steps))
                p.data -= rate * group["weight_decay"] * p.data
                before1 = state.get("m", torch.zeros_like(grad))
                before2 = state.get("v", torch.zeros_like(grad))
                moment1 = beta1 * before1 + (1 - beta1) * grad
                moment2 = beta2 * before2 + (1 - beta2) * torch.square(grad)
                p.data -= corrected * moment1 / (torch.sqrt(moment2) + group["eps"])
                state["m"], state["v"], state["t"] = moment1, moment2, steps + 1
