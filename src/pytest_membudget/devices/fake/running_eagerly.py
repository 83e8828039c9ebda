"""What torch runs elsewhere or otherwise, run here and as written: scripts, loaders' processes."""

from __future__ import annotations

import sys
from typing import Any

import torch

from .ordinal import own_device


def install_eager_scripts() -> None:
    """Leave torch's own TorchScript optimizers as the Python code they are; they compile no replaced names.

    ``torch.distributed.optim`` cannot be imported otherwise.
    """
    own: Any = torch.jit
    original = own.script

    def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
        asker = sys._getframe(1).f_globals.get("__name__", "")
        return obj if asker.startswith("torch.distributed.") else original(obj, *args, **kwargs)

    own.script = script


def install_data_parallel() -> None:
    """Let ``nn.DataParallel`` run on the one device, as it does where there is one."""
    from torch.nn.parallel import comm

    original: Any = comm.scatter

    def scatter(tensor: torch.Tensor, devices: Any = None, *args: Any, **kwargs: Any) -> Any:
        if devices is None or len(devices) > 1:
            return original(tensor, devices, *args, **kwargs)
        return (tensor.to(own_device()),)

    comm.scatter = scatter
