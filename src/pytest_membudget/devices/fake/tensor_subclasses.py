"""Tensors of classes of the user's own that are made around a tensor's data, as quantised parameters are.

On a real device ``Tensor._make_subclass``, ``Tensor.as_subclass`` and ``nn.Parameter``'s subclasses give one
memory another Python class. A fake tensor has its class already: here the same tensor gets one that is both.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

#: By the user's class: the one that is a fake tensor's too.
_fake_classes: dict[type, type] = {}


def install_subclasses() -> None:
    """Let these calls give fake tensors of the classes that they name."""
    _install_make_subclass()
    _install_as_subclass()
    _install_parameters()


def _install_make_subclass() -> None:
    own: Any = torch.Tensor
    original = own._make_subclass

    def make_subclass(cls: type, data: torch.Tensor, require_grad: bool = False, **options: Any) -> Any:
        if cls is FakeTensor or not isinstance(data, FakeTensor) or _dispatches(cls):
            return original(cls, data, require_grad, **options)
        return _as_class(data.detach(), cls).requires_grad_(require_grad)

    own._make_subclass = staticmethod(make_subclass)


def _install_as_subclass() -> None:
    original: Any = torch.Tensor.as_subclass

    def as_subclass(tensor: torch.Tensor, cls: type) -> Any:
        if not isinstance(tensor, FakeTensor) or _dispatches(cls):
            return original(tensor, cls)
        with torch._C.DisableTorchFunctionSubclass():
            same = tensor.view_as(tensor)
        return same if cls is torch.Tensor else _as_class(same, cls)

    torch.Tensor.as_subclass = as_subclass  # type: ignore[assignment, method-assign]


def _install_parameters() -> None:
    parameter: Any = torch.nn.Parameter
    original = parameter.__new__

    def new(cls: type, data: Any = None, requires_grad: bool = True, *args: Any, **kwargs: Any) -> Any:
        if type(data) in _fake_classes.values() and _converts(sys._getframe(1)):
            data = _as_class(data.detach(), FakeTensor)
        made = original(cls, data, requires_grad, *args, **kwargs)
        if isinstance(made, FakeTensor) and not issubclass(type(made), cls) and cls is not torch.nn.Parameter:
            return made if _dispatches(cls) else _as_class(made, cls)
        return made

    parameter.__new__ = staticmethod(new)


def _converts(caller: Any) -> bool:
    """Whether ``Module._apply`` asks: it writes to ``.data`` of real parameters, and makes new fake ones."""
    return bool(caller.f_globals.get("__name__") == "torch.nn.modules.module")


def _as_class(tensor: Any, cls: type) -> Any:
    tensor.__class__ = cls if issubclass(cls, FakeTensor) else _fake_class(cls)
    return tensor


def _fake_class(cls: type) -> type:
    made = _fake_classes.get(cls)
    if made is None:
        names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
        made = _fake_classes[cls] = type(cls)(cls.__name__, (cls, FakeTensor), names)
        # torch turns it off in classes with a dispatch method, as a fake tensor's
        made.__torch_function__ = inspect.getattr_static(cls, "__torch_function__")  # type: ignore[attr-defined]
    return made


def _dispatches(cls: type) -> bool:
    """Whether ``cls`` handles operators itself, which a fake tensor does in another way."""
    mine = inspect.getattr_static(cls, "__torch_dispatch__", None)
    plain = inspect.getattr_static(torch.Tensor, "__torch_dispatch__", None)
    return mine is not plain and not issubclass(cls, FakeTensor)
