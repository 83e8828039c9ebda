"""User code must not find out that its tensors are fake.

Libraries ask (transformers: ``isinstance(x, torch._subclasses.FakeTensor)``) and then take a path that a
real run does not take, with other memory: masks that flash attention skips, for one.
"""

from __future__ import annotations

import sys
from types import ModuleType

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor

_HIDDEN_FROM = "torch"


class _NotAFakeTensor(torch.Tensor):
    """What code outside torch gets for ``FakeTensor``: a class of which nothing is an instance."""


class _DisguisedModule(ModuleType):
    """A module of torch whose ``FakeTensor`` depends on who asks."""

    @property
    def FakeTensor(self) -> type:  # noqa: N802 - the name of the class it stands for
        """The real class for torch itself and for us, the other one for everybody else."""
        name = sys._getframe(1).f_globals.get("__name__", "")
        package = name.partition(".")[0]
        return FakeTensor if package in (_HIDDEN_FROM, "pytest_membudget") else _NotAFakeTensor


def install_disguise() -> None:
    """Hide the fake tensors of this process from code outside torch."""
    for module in (fake_tensor, torch._subclasses):
        # the module's own code reads its globals directly and is not affected
        module.__class__ = _DisguisedModule
