"""An optimizer on the host: gradients go there as backward makes them, parameters come back.

Written after pytorch/ao@1b1e94c5b (torchao/prototype/low_bit_optim/cpu_offload.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import torch
from torch import nn


class HostAdamW:
    """``torch.optim.AdamW(fused=True)`` of each parameter's copy in host memory."""

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self.stream = torch.cuda.Stream()
        self.copies: dict[nn.Parameter, torch.Tensor] = {}
        self.optimizers: dict[nn.Parameter, torch.optim.Optimizer] = {}
        self.queue: dict[nn.Parameter, torch.cuda.Event] = {}
        for parameter in parameters:
            copy = torch.empty_like(parameter, device="cpu", pin_memory=True).detach().requires_grad_()
            copy.grad = torch.empty_like(copy, pin_memory=True)
            self.copies[parameter] = copy
            parameter.register_post_accumulate_grad_hook(partial(self._send, parameter))
            self.optimizers[parameter] = torch.optim.AdamW([copy], fused=True)

    def _send(self, parameter: nn.Parameter, _: torch.Tensor) -> None:
        grad = self.copies[parameter].grad
        assert grad is not None
        assert parameter.grad is not None
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            grad.copy_(parameter.grad, non_blocking=True)
        self.queue.pop(parameter, None)
        self.queue[parameter] = self.stream.record_event()

    @torch.no_grad()
    def step(self) -> None:
        """Update on the host, and copy back."""
        for parameter, sent in self.queue.items():
            sent.synchronize()
            self.optimizers[parameter].step()
            with torch.cuda.stream(self.stream):
                parameter.copy_(self.copies[parameter], non_blocking=True)
        self.queue.clear()

    def zero_grad(self) -> None:
        """Only the gradients on the device: those on the host are written over."""
        for parameter in self.copies:
            parameter.grad = None
