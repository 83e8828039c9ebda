"""User code must not find out that its tensors are fake.

Libraries ask (transformers: ``isinstance(x, torch._subclasses.FakeTensor)``) and then take a path that a
real run does not take, with other memory: masks that flash attention skips, for one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor

#: Packages that see the real types: torch itself, and this one.
_SEES_REAL_TYPES = ("torch", "pytest_membudget")


class _NotAFakeTensor(torch.Tensor):
    """What code outside torch gets for ``FakeTensor``: a class of which nothing is an instance."""


class _DisguisedPackage(ModuleType):
    """``torch._subclasses``, whose ``FakeTensor`` depends on who asks."""

    def __getattr__(self, name: str) -> Any:
        """For what is not there. As it is, Python 3.14 does not read names in loops past the properties."""
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    @property
    def FakeTensor(self) -> type:  # noqa: N802 - the name of the class it replaces
        """The real class for torch itself and for us, the other one for everybody else."""
        return FakeTensor if _names(sys._getframe(1), "FakeTensor") else _NotAFakeTensor


class _DisguisedModule(_DisguisedPackage):
    """``torch._subclasses.fake_tensor``, whose own code reads its globals directly and is not affected."""

    @property
    def is_fake(self) -> Callable[[object], bool]:
        """The real function for torch itself and for us, "no" for everybody else."""
        return _is_fake if _names(sys._getframe(1), "is_fake") else _is_never_fake


_is_fake = fake_tensor.is_fake


def _is_never_fake(tensor: object) -> bool:
    return False


def install_disguise() -> None:
    """Hide the fake tensors of this process from code outside torch."""
    torch._subclasses.__class__ = _DisguisedPackage
    fake_tensor.__class__ = _DisguisedModule
    detect = torch._guards.detect_fake_mode

    def detect_fake_mode(inputs: Any = None) -> Any:
        return detect(inputs) if _sees_real_types(sys._getframe(1)) else None

    torch._guards.detect_fake_mode = detect_fake_mode


def _names(asker: FrameType, name: str) -> bool:
    """Whether ``asker`` is torch's or ours and has the name in its own text.

    torch's compiler looks up names for the code that it compiles, and once more in its guards.
    """
    return _sees_real_types(asker) and name in asker.f_code.co_names


def _sees_real_types(asker: FrameType) -> bool:
    return asker.f_globals.get("__name__", "").partition(".")[0] in _SEES_REAL_TYPES
