"""The joint graph of a compiled region, traced without CUDA: which device the autograd engine is shown.

AOTAutograd traces forward and backward on functional tensors around fake ones, and runs the autograd engine
on them. A functional tensor keeps its device in C++, where the engine asks it for the stream of a device
that is not there. Here it asks Python instead, as fake tensors do: ``device_query`` has the rule.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode

from . import device_query
from .device_names import with_named_device
from .device_query import META, PRIM_DEVICE

#: Position of ``dispatch_device`` in ``Tensor._make_wrapper_subclass``, the class left out (2.11 to 2.15).
_DISPATCH_DEVICE = 10


def install_functional_devices() -> None:
    """Let functional tensors on cuda be differentiated where no CUDA is; for the whole process."""
    tensors: Any = torch.Tensor
    make = tensors._make_wrapper_subclass

    def make_wrapper(cls: type, *args: Any, **kwargs: Any) -> Any:
        if cls is FunctionalTensor:
            args = (*args[:_DISPATCH_DEVICE], True, *args[_DISPATCH_DEVICE + 1 :])
        return make(cls, *args, **kwargs)

    tensors._make_wrapper_subclass = make_wrapper
    modes: Any = FunctionalTensorMode
    original = modes.__torch_dispatch__

    # the name must not be one that ``called_by_engine`` passes over: functionalization's own C++ asks the
    # tensors inside for their device too, and must get the true one, in a backward as well
    def functionalize(
        mode: Any, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if func is PRIM_DEVICE:
            return _device(args[0])
        return original(mode, func, types, args, _as_meant(kwargs))

    modes.__torch_dispatch__ = functionalize
    _name_devices()


def _name_devices() -> None:
    """Let a device that is given as a number be cuda for a compiler's fake tensors too."""
    modes: Any = FakeTensorMode
    original = modes.__torch_dispatch__

    def dispatch(
        mode: Any, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        return original(mode, func, types, args, _as_meant(kwargs))

    modes.__torch_dispatch__ = dispatch


def _as_meant(kwargs: Any) -> Any:
    if kwargs and kwargs.get("device") is not None:
        return with_named_device(kwargs, is_copy=True)
    return kwargs


def _device(tensor: Any) -> torch.device:
    asked = sys._getframe(1)
    if not isinstance(tensor, FunctionalTensor):
        return device_query.answer(tensor, asked)
    device: torch.device = tensor.elem.device
    is_engine = device.type == "cuda" and device_query.called_by_engine(asked.f_back)
    return META if is_engine else device


#: (module, attribute path, what it is for): see ``private``.
PARTS: tuple[tuple[str, str, str], ...] = (
    ("torch", "Tensor._make_wrapper_subclass", "compiled regions: the device of functional tensors"),
    ("torch._subclasses.functional_tensor", "FunctionalTensor", "compiled regions: the joint graph"),
    (
        "torch._subclasses.functional_tensor",
        "FunctionalTensorMode.__torch_dispatch__",
        "compiled regions: the device of functional tensors",
    ),
    ("torch", "_from_functional_tensor", "compiled regions: the device of functional tensors"),
    ("torch", "_is_functional_tensor", "compiled regions: the device of functional tensors"),
)
