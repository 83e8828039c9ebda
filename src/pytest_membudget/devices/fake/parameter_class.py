"""What ``type(parameter)`` makes when it is called: another parameter.

Libraries that place weights (accelerate: ``init_empty_weights``, dispatch) take a parameter's class
and call it with the new data, so that quantised weights keep theirs. A fake parameter's class is
``FakeTensor``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor


def install_parameter_class() -> None:
    """Let ``type(parameter)(data, requires_grad=...)`` make a parameter of ``data``, and of nothing else.

    What more is passed may be the ``vars`` of a fake parameter, where those of a real one are empty.
    """
    fake: Any = FakeTensor
    original = fake.__new__

    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        # torch itself makes fake tensors around ones on meta that are not fake
        if len(args) == 1 and isinstance(args[0], FakeTensor):
            return torch.nn.Parameter(args[0], kwargs.get("requires_grad") is not False)
        return original(cls, *args, **kwargs)

    fake.__new__ = new
