"""AdamW with states of few bits: their storages as torchao and bitsandbytes lay them out, without the update.

Written after pytorch/ao@aacaf9b3e (torchao/prototype/low_bit_optim: adam.py and the subclass_*.py) and
bitsandbytes 0.43 (optim/optimizer.py, ``Optimizer2State.init_state``). Both update in one kernel, in place,
and hold nothing else while they step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

#: Parameters of fewer numbers keep float32 states, in both libraries.
SMALLEST = 4096


@dataclass(frozen=True, slots=True)
class StateLayout:
    """How one of the two states of a parameter is kept."""

    block: int
    """Numbers that share a scale."""
    codes_a_byte: int = 1
    code: torch.dtype = torch.uint8
    map_entries: int = 256
    """Numbers in a state's own table of what a code means; 0 for a type that needs none."""
    uneven: bool = False
    """Whether parameters that are no multiple of ``block`` are quantized too."""


AO_8BIT = StateLayout(block=2048)
AO_FP8 = StateLayout(block=2048, code=torch.float8_e4m3fn, map_entries=0)
AO_4BIT = StateLayout(block=128, codes_a_byte=2, map_entries=16)
BNB_8BIT = StateLayout(block=2048, map_entries=0, uneven=True)


class LowBitAdamW(torch.optim.Optimizer):
    """Two states a parameter in the given layout, made at the first step."""

    def __init__(self, parameters: Iterable[nn.Parameter], layout: StateLayout) -> None:
        super().__init__(parameters, {"lr": 1e-4})
        self.layout = layout

    def _state(self, parameter: torch.Tensor) -> tuple[torch.Tensor, ...]:
        layout, count, device = self.layout, parameter.numel(), parameter.device
        if count < SMALLEST or (count % layout.block and not layout.uneven):
            return (torch.zeros_like(parameter),)
        return (
            torch.zeros(count // layout.codes_a_byte, dtype=torch.uint8, device=device).view(layout.code),
            torch.zeros(-(-count // layout.block), device=device),
            torch.empty(layout.map_entries, device=device),
        )

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Make what is missing, and write to the parameters."""
        for parameter in (one for group in self.param_groups for one in group["params"]):
            if parameter.grad is not None:
                state = self.state[parameter]
                if not state:
                    state["exp_avg"], state["exp_avg_sq"] = self._state(parameter), self._state(parameter)
                parameter.mul_(1.0)
