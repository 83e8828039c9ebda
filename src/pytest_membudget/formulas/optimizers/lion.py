"""Lion as lion-pytorch has it: one momentum, one parameter after the other; torch.optim has none.

Read in lion_pytorch/lion_pytorch.py of lion-pytorch 0.2.5 (without Triton). bitsandbytes has its own.
"""

from __future__ import annotations

from typing import Final

from ..job import Optimizer
from ..local_tensors import LocalTensor
from .contract import Actions, Family, Free, Implementation, Make, as_large, keeps


def _step(tensor: LocalTensor, optimizer: Optimizer, how: Implementation) -> Actions:
    """In a separate function: nothing is left for the next parameter."""
    return Make("clone", as_large), Make("update", as_large), Free("clone"), Free("update")


FAMILY: Final = Family(
    "lion_pytorch/lion_pytorch.py, lion-pytorch 0.2.5", keeps("exp_avg"), _step, implementations=("loop",)
)
