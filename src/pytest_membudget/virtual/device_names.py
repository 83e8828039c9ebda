"""A device given as a number is the virtual one: ``.to(rank)``, ``device=torch.cuda.current_device()``.

torch takes a number for the accelerator of the build. That is the stand-in (see ``guard``), so its name
becomes cuda wherever it comes up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from .guard import STAND_IN
from .torch_cuda import check_ordinal

_Real = torch.device


class _DeviceType(type):
    """Makes real devices instances of what stands for ``torch.device``, and the two types equal."""

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


def named(device: torch.device) -> torch.device:
    """``device``, or cuda where torch took a number for the stand-in."""
    if device.type == STAND_IN:
        return _Real("cuda", device.index or 0)
    return device


def with_named_device(kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """``kwargs`` of an operator, with the ``device`` that is meant; raises for a GPU that is not there."""
    device = kwargs["device"]
    if device is None:
        return kwargs
    if device.type == STAND_IN:
        device = named(device)
        kwargs = {**kwargs, "device": device}
    if device.index and device.type == "cuda":
        check_ordinal(device)
    return kwargs
