"""``torch.cuda``, ``torch.accelerator`` and ``torch.backends`` of a machine with the virtual device."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ...allocator.caching import CachingAllocator
from ...hardware.gpus import Gpu
from .cuda_memory import memory_functions, other_settings
from .cuda_streams import Event, Stream, stream_functions
from .generator import DefaultGenerators
from .memory_history import MemoryHistory
from .torch_cuda import CUDA_VERSION, CUDNN_VERSION, CudaDevice, query_functions, tool_functions

#: Modules of torch that bind names of ``torch.cuda`` themselves at import.
_CUDA_MODULES = (
    "torch.cuda", "torch.cuda.memory", "torch.cuda.random", "torch.cuda.streams", "torch.cuda.graphs",
)  # fmt: skip
_ACCELERATOR_MODULES = ("torch.accelerator", "torch.accelerator.memory")


def install_cuda_module(
    gpu: Callable[[], Gpu],
    allocator: Callable[[], CachingAllocator],
    select_stream: Callable[[int], None],
    history: MemoryHistory,
    clear_workspaces: Callable[[], None],
) -> None:
    """Make ``torch.cuda`` and its kin answer for ``gpu()``; ``select_stream`` is called with the stream."""
    names: dict[str, Any] = {
        **query_functions(gpu),
        **stream_functions(select_stream),
        **memory_functions(gpu, allocator),
        **history.functions(),
        "default_generators": DefaultGenerators(),
        "is_compiled": lambda: True,
    }
    for module in _CUDA_MODULES:
        _replace(importlib.import_module(module), names)
    for module, functions in tool_functions().items():
        _replace(importlib.import_module(module), functions)
    for module in _ACCELERATOR_MODULES:
        _replace(importlib.import_module(module), _accelerator_names(names))
    torch.cuda._is_compiled = lambda: True
    torch._C._cuda_getCurrentRawStream = lambda device: 0  # for extensions' launches
    own: Any = torch._C
    own._accelerator_setAllocatorSettings = other_settings()
    own._cuda_clearCublasWorkspaces = clear_workspaces
    torch.Stream, torch.Event = Stream, Event  # type: ignore[misc, assignment]
    _install_device_module()
    _install_build()


def _accelerator_names(cuda: Mapping[str, Any]) -> dict[str, Any]:
    same = (
        "is_available", "device_count", "synchronize", "current_stream", "set_stream", "empty_cache",
        "memory_stats", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
        "reset_peak_memory_stats", "reset_accumulated_memory_stats",
    )  # fmt: skip
    return {
        **{name: cuda[name] for name in same},
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "current_device_index": cuda["current_device"],
        "current_device_idx": cuda["current_device"],
        "set_device_index": cuda["set_device"],
        "set_device_idx": cuda["set_device"],
        "device_index": CudaDevice,
        "get_memory_info": cuda["mem_get_info"],
    }


def _replace(module: Any, names: Mapping[str, Any]) -> None:
    for name, value in names.items():
        if hasattr(module, name):
            setattr(module, name, value)


def _install_device_module() -> None:
    own: Any = torch
    original = own.get_device_module
    own.get_device_module = lambda device=None: torch.cuda if device is None else original(device)


def _install_build() -> None:
    """Show the build of torch that a machine with a GPU has; torch itself sees its own."""
    if torch.version.cuda is None:
        torch.version.cuda = CUDA_VERSION
    backends: Any = torch.backends
    _show(backends.cuda, "is_built", True)
    _show(backends.cuda, "is_flash_attention_available", True)
    _show(backends.cudnn, "is_available", True)
    _show(backends.cudnn, "version", CUDNN_VERSION)
    backends.cudnn.is_acceptable = lambda tensor: False  # no flat weights: see ``recurrent``


def _show(module: Any, name: str, shown: object) -> None:
    original = getattr(module, name)

    def answer(*args: Any) -> Any:
        asker = sys._getframe(1).f_globals.get("__name__", "").partition(".")[0]
        return original(*args) if asker == "torch" else shown

    setattr(module, name, answer)
