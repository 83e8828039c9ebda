"""Makes fake tensors print as the tensors they represent."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from .known_values import KnownValues

#: Larger tensors are summarised by torch too (``threshold`` of ``torch.set_printoptions``).
_MOST_ELEMENTS = 1000


def install_printing(known: KnownValues) -> None:
    """Let fake tensors be printed and formatted; where the values are unknown, without them.

    Formatting a single number reads it, as it does on a real device; printing a tensor does not.
    """
    fake: Any = FakeTensor

    def text(tensor: torch.Tensor, *, tensor_contents: object = None) -> str:
        with torch._C._DisableTorchDispatch():
            shown = _shown(known, tensor)
        return f"Parameter containing:\n{shown}" if isinstance(tensor, torch.nn.Parameter) else shown

    def formatted(tensor: torch.Tensor, specification: str) -> str:
        if tensor.dim() == 0:
            return format(tensor.detach().item(), specification)
        return object.__format__(tensor, specification)

    fake.__repr__ = text
    fake.__format__ = formatted


def _shown(known: KnownValues, tensor: torch.Tensor) -> str:
    values = known.of(tensor) if tensor.numel() <= _MOST_ELEMENTS and not known.is_assumed(tensor) else None
    notes = [] if tensor.device.type == "cpu" else [f"device='{tensor.device}'"]
    if values is not None:
        head = repr(values)[:-1]
    else:
        head = "tensor(..."
        notes.append(f"size={tuple(tensor.shape)}")
        if tensor.dtype is not torch.get_default_dtype():
            notes.append(f"dtype={tensor.dtype}")
    if tensor.grad_fn is not None:
        notes.append(f"grad_fn=<{type(tensor.grad_fn).__name__}>")
    elif tensor.requires_grad:
        notes.append("requires_grad=True")
    return ", ".join([head, *notes]) + ")"
