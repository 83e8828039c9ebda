"""What torch runs elsewhere or otherwise, run here and as written: compiled code, loaders' processes."""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _SingleProcessDataLoaderIter

from .ordinal import own_device

COMPILED = "torch.compile: {} is traced as eager code, which keeps what a compiled one fuses away"


class _Note:
    """Tells that eager code runs; the same one in each copy of a module that holds it."""

    def __init__(self, note: Callable[[str], None] = lambda text: None) -> None:
        self.note = note

    def __deepcopy__(self, memo: object) -> _Note:
        return self

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return _Note, ()


class EagerModule(nn.Module):
    """What ``torch.compile(module)`` gives: the module, under the name that its state dict has there."""

    def __init__(self, module: nn.Module, note: _Note) -> None:
        super().__init__()
        self._membudget = note
        self._orig_mod = module
        self.training = module.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module as written."""
        self._membudget.note(COMPILED.format(type(self._orig_mod).__name__))
        return self._orig_mod(*args, **kwargs)

    def __len__(self) -> int:
        return len(self._orig_mod)  # type: ignore[arg-type] # a TypeError says what is wrong

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("_membudget", "_orig_mod", "training"):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)


def install_eager_compile(note: Callable[[str], None]) -> None:
    """Make ``torch.compile`` run code as written; ``note`` is told when such code runs."""

    def compiled(model: Any = None, **options: Any) -> Any:
        if model is None:
            return lambda given: compiled(given, **options)
        if isinstance(model, nn.Module):
            return EagerModule(model, _Note(note))

        @functools.wraps(model)
        def run(*args: Any, **kwargs: Any) -> Any:
            note(COMPILED.format(_region(model)))
            return model(*args, **kwargs)

        return run

    torch.compile = compiled


def _region(function: Callable[..., Any]) -> str:
    """A function's name; of what ``Module.compile`` compiles, a method, its module's."""
    owner = getattr(function, "__self__", None)
    return type(owner).__name__ if isinstance(owner, nn.Module) else getattr(function, "__qualname__", "code")


def install_loaders() -> None:
    """Let a loader's workers' work be done in the test's own process: what they make must be known here."""
    loaders: Any = DataLoader
    original = loaders._get_iterator

    def get_iterator(loader: DataLoader[Any]) -> Any:
        if loader.num_workers == 0:
            return original(loader)
        alone = copy.copy(loader)
        vars(alone).update(num_workers=0, timeout=0, prefetch_factor=None, persistent_workers=False)
        return _SingleProcessDataLoaderIter(alone)

    loaders._get_iterator = get_iterator


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
