"""Generators of random numbers that may name the virtual device."""

from __future__ import annotations

from typing import Any

import torch

from .ordinal import own_device

_Real = torch.Generator


class _AnyGenerator(type(_Real)):  # type: ignore[misc] # its metatype differs by release
    """Makes ``torch.default_generator`` an instance of what stands for ``torch.Generator``."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _Real)


class VirtualGenerator(_Real, metaclass=_AnyGenerator):
    """``torch.Generator`` that may name the virtual device; it draws nothing there."""

    def __new__(cls, device: Any = "cpu") -> VirtualGenerator:
        """A generator for ``device``; a CPU generator stands behind one for cuda."""
        wanted = torch.device(device)
        behind = "cpu" if wanted.type == "cuda" else wanted
        generator: VirtualGenerator = super().__new__(cls, behind)  # type: ignore[call-arg] # a C type
        generator._device = own_device() if wanted.type == "cuda" else wanted
        return generator

    @property
    def device(self) -> torch.device:  # type: ignore[override] # read-only in C too
        """The device that was asked for."""
        return self._device

    _device: torch.device


def install_generator() -> None:
    """Let ``torch.Generator(device="cuda")`` be made."""
    torch.Generator = VirtualGenerator  # type: ignore[misc]
