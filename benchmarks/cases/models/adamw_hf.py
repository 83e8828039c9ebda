"""AdamW as transformers had it: parameter by parameter, one temporary of its size.

Written after transformers 4.15.0 (optimization.py, ``AdamW``).
"""

from __future__ import annotations

from typing import Any

import torch


class AdamWHF(torch.optim.Optimizer):
    """The default of ``Trainer`` at that time, without weight decay."""

    def __init__(self, parameters: Any, lr: float = 5e-5) -> None:
        super().__init__(parameters, {"lr": lr, "betas": (0.9, 0.999), "eps": 1e-8})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """One update of every parameter that has a gradient."""
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state, grad = self.state[parameter], parameter.grad
                if not state:
                    state["exp_avg"] = torch.zeros_like(parameter)
                    state["exp_avg_sq"] = torch.zeros_like(parameter)
                average, square = state["exp_avg"], state["exp_avg_sq"]
                average.mul_(beta1).add_(grad, alpha=1.0 - beta1)
                square.mul_(beta2).addcmul_(grad, grad, value=1.0 - beta2)
                denominator = square.sqrt().add_(group["eps"])
                parameter.addcdiv_(average, denominator, value=-group["lr"])
