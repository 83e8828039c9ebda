"""The device of a DTensor, which is that of the rank's own part: asked for, not stored.

The autograd engine must get ``meta`` where all others get cuda (see ``device_query``). A DTensor
has its device in C++; here it is made so that it asks, as a fake tensor does.
"""

from __future__ import annotations

from typing import Any

import torch


def install_wrapped_devices() -> None:
    """Let DTensors ask for their device."""
    from torch.distributed.tensor import DTensor

    kind: Any = DTensor

    def new(cls: Any, local_tensor: torch.Tensor, spec: Any, *, requires_grad: bool) -> Any:
        meta = spec.tensor_meta
        own: Any = torch.Tensor
        made = own._make_wrapper_subclass(
            cls,
            meta.shape,
            strides=meta.stride,
            dtype=local_tensor.dtype,
            layout=local_tensor.layout,
            device=local_tensor.device,
            requires_grad=requires_grad,
            dispatch_device=True,
        )
        made._spec = spec
        made._local_tensor = local_tensor
        return made

    kind.__new__ = new
