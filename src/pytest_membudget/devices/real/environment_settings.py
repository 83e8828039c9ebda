"""Settings of PyTorch that code makes by environment variables, where this process has read them before.

The compiler reads its own when it is imported, the allocator when it is first asked. A worker has done both
before the first line of a script, which may set others: they count, as in a process that runs it alone.
"""

import importlib.util
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import torch
from torch.utils._config_module import ConfigModule

from ...errors import UnsupportedTorch
from ...names import alloc_conf_of
from ..torch_parts import ASYNC_ALLOCATOR, NO_HISTORY, check_parts
from .observer import allocated_bytes

#: (module, attribute path, what it is for): see ``devices/torch_parts.py``.
PARTS: tuple[tuple[str, str, str], ...] = (
    ("torch._C", "_accelerator_setAllocatorSettings", "the allocator's settings that code makes"),
    ("torch.compiler.config", "_config", "the compiler's settings that code makes"),
)

#: How the names of the compiler's variables begin.
_COMPILERS: Final = "TORCH"
#: Says where things are kept, and nothing else; it is another one in each run.
_FOLDER: Final = "TORCHINDUCTOR_CACHE_DIR"


def follow_settings() -> None:
    """Have variables that code sets from here on count, as if PyTorch had read none before."""
    check_parts(PARTS)
    environment: Any = type(os.environ)
    for change in ("__setitem__", "__delitem__"):
        setattr(environment, change, _followed(getattr(environment, change)))


def _followed(change: Callable[..., None]) -> Callable[..., None]:
    def followed(environment: Any, name: str, *value: str) -> None:
        if environment is not os.environ:  # of bytes, or a copy
            change(environment, name, *value)
            return
        before, allocators = environment.get(name), alloc_conf_of(environment)
        change(environment, name, *value)
        if environment.get(name) == before:
            return
        if (settings := alloc_conf_of(environment)) != allocators and not allocated_bytes("allocated"):
            if ASYNC_ALLOCATOR in settings:
                raise UnsupportedTorch(NO_HISTORY)
            torch._C._accelerator_setAllocatorSettings(settings)
        if name.startswith(_COMPILERS) and name != _FOLDER:
            _read_anew()

    return followed


def _read_anew() -> None:
    """Give each setting the value that it would have if it were imported now; not those that code has set."""
    for name, module in [*sys.modules.items()]:
        if isinstance(module, ConfigModule) and name.startswith("torch."):
            own: Any = module
            for key, entry in _imported_again(own)._config.items():
                setting = own._config[key]
                setting.default = entry.default
                setting.env_value_default = entry.env_value_default
                setting.env_value_force = entry.env_value_force


def _imported_again(module: ModuleType) -> Any:
    spec: Any = module.__spec__
    fresh = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = fresh  # by its name it makes its settings
    try:
        spec.loader.exec_module(fresh)
    finally:
        sys.modules[spec.name] = module
    return fresh
