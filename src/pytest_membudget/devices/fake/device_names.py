"""A device given as a number is the virtual one: ``.to(rank)``, ``device=torch.cuda.current_device()``.

torch takes a number for the accelerator of the build. That is the stand-in (see ``guard``), so its name
becomes cuda wherever it comes up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from .guard import STAND_IN
from .ordinal import check_ordinal, own_device, own_index

_Real = torch.device


class _DeviceType(type):
    """Makes real devices instances of the replacement of ``torch.device``, and the two types equal."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        device = _Real(*args, **kwargs)
        return named(device) if args and type(args[0]) is int else device  # torch itself asks often

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _Real)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return subclass is cls or subclass is _Real

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is _Real

    def __hash__(cls) -> int:
        return hash(_Real)


class _Device(metaclass=_DeviceType):
    """``torch.device``: gives real devices, cuda for a number."""


def install_device_names() -> None:
    """Let numbers name the virtual device."""
    _Device.__module__, _Device.__name__, _Device.__qualname__ = "torch", "device", "device"
    torch.device = _Device  # type: ignore[misc, assignment]
    _install_to()


def _install_to() -> None:
    """Let ``.to(0)`` give the same tensor where it lies there: C++ compares with the stand-in, and copies."""
    fake: Any = FakeTensor
    original = torch.Tensor.to

    def to(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if args and isinstance(args[0], (int, _Real)):
            args = named(_Real(args[0])), *args[1:]
        elif isinstance(kwargs.get("device"), (int, _Real)):
            kwargs["device"] = named(_Real(kwargs["device"]))
        return original(tensor, *args, **kwargs)

    fake.to = to


def named(device: torch.device) -> torch.device:
    """``device``, or cuda where torch took a number for the stand-in."""
    if device.type == STAND_IN:
        return _Real("cuda", own_index() if device.index is None else device.index)
    return device


def with_named_device(kwargs: Mapping[str, Any], *, is_copy: bool) -> Mapping[str, Any]:
    """``kwargs`` of an operator, with the ``device`` that is meant; raises for a GPU that is not there.

    ``is_copy``: it is that of ``Tensor.to``, where C++ has put 0, the guard's current device, for a device
    without a number.
    """
    device = kwargs["device"]
    if device is None:
        return kwargs
    if device.type == STAND_IN:
        device = named(device)
        kwargs = {**kwargs, "device": device}
    if device.type == "cuda" and device.index is not None and device.index != own_index():
        if not (is_copy and device.index == 0):
            check_ordinal(device)
        kwargs = {**kwargs, "device": own_device()}
    return kwargs
