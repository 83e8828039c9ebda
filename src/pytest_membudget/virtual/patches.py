"""Changes to torch that make it behave on the virtual device as on a real one; for the whole process."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor

from ..allocator import CachingAllocator
from ..gpus import Gpu
from .torch_cuda import memory_functions, query_functions, random_functions, stream_functions

#: Modules of torch that bind names of ``torch.cuda`` themselves at import.
_CUDA_MODULES = ("torch.cuda", "torch.cuda.memory", "torch.cuda.random", "torch.cuda.streams")


def install_cuda_module(gpu: Callable[[], Gpu], allocator: Callable[[], CachingAllocator]) -> None:
    """Make ``torch.cuda`` and ``torch.accelerator`` answer for ``gpu()``."""
    names: dict[str, Any] = {
        **query_functions(gpu),
        **stream_functions(),
        **random_functions(),
        **memory_functions(gpu, allocator),
        "default_generators": (torch.Generator(),),
        "is_compiled": lambda: True,
    }
    for module in _CUDA_MODULES:
        _replace(importlib.import_module(module), names)
    torch.cuda._is_compiled = lambda: True
    _replace(torch.accelerator, _accelerator_names(names))
    _replace(torch.backends.cuda, {"is_built": lambda: True})


def _accelerator_names(cuda: Mapping[str, Any]) -> dict[str, Any]:
    names = {
        name: cuda[name]
        for name in (
            "is_available", "device_count", "synchronize", "current_stream", "set_stream", "empty_cache",
            "memory_stats", "memory_allocated", "max_memory_allocated", "memory_reserved",
            "max_memory_reserved", "reset_peak_memory_stats", "reset_accumulated_memory_stats",
        )
    }  # fmt: skip
    return {
        **names,
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "current_device_index": cuda["current_device"],
        "current_device_idx": cuda["current_device"],
        "set_device_index": cuda["set_device"],
        "set_device_idx": cuda["set_device"],
    }


def _replace(module: Any, names: Mapping[str, Any]) -> None:
    for name, value in names.items():
        if hasattr(module, name):
            setattr(module, name, value)


def install_optimizer_defaults() -> None:
    """Let optimizers and clipping treat fake tensors as the plain ones they stand for.

    ``foreach`` is the default on CUDA for tensors of these types only.
    """
    for module in ("torch.optim.optimizer", "torch.utils._foreach_utils"):
        types: list[type] = importlib.import_module(module)._foreach_supported_types
        if FakeTensor not in types:
            types.append(FakeTensor)


def install_conversions() -> None:
    """Make ``Module.to`` and the like work on fake parameters, with the lifetimes of real ones."""
    torch.utils.swap_tensors = _exchange
    fake_tensor.init_gpu_context = lambda *args: None  # type: ignore[assignment]


def _exchange(first: torch.Tensor, second: torch.Tensor) -> None:
    """``torch.utils.swap_tensors`` for fake tensors, which their mode holds weak references to.

    ``nn.Module._apply`` swaps only fake parameters; it writes to ``.data`` of real ones, and then the new
    tensor and the parameter share the new memory while the old memory is free. So ``second`` ends as an
    alias of ``first`` here, and does not keep the old memory until the caller lets go of it.
    """
    _swap_implementations(first, second)
    if isinstance(first, FakeTensor):
        with torch.no_grad():
            _swap_implementations(second, first.detach())


def _swap_implementations(first: torch.Tensor, second: torch.Tensor) -> None:
    if isinstance(first, FakeTensor) and isinstance(second, FakeTensor):
        # what a user set on a parameter stays with it, as with real ones
        first.fake_device, second.fake_device = second.fake_device, first.fake_device
        first.constant, second.constant = second.constant, first.constant
    torch._C._swap_tensor_impl(first, second)


def install_copies(on_parameter: Callable[[torch.Tensor], None]) -> None:
    """Let fake parameters be copied as ``nn.Parameter`` copies real ones: the data, and no gradient.

    ``on_parameter`` is told of each copy, which no module registers.
    """
    copy_tensor: Any = torch.Tensor.__deepcopy__

    def deepcopy(tensor: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
        if not (isinstance(tensor, FakeTensor) and getattr(tensor, "_is_param", False)) or id(tensor) in memo:
            return copy_tensor(tensor, memo)  # type: ignore[no-any-return]
        data = tensor.data.clone(memory_format=torch.preserve_format)
        copied = memo[id(tensor)] = torch.nn.Parameter(data, tensor.requires_grad)
        on_parameter(copied)
        return copied

    torch.Tensor.__deepcopy__ = deepcopy  # type: ignore[method-assign]


class VirtualGenerator(torch.Generator):
    """``torch.Generator`` that may name the virtual device; it draws nothing there."""

    def __new__(cls, device: Any = "cpu") -> VirtualGenerator:
        """A generator for ``device``; a CPU generator stands behind one for cuda."""
        wanted = torch.device(device)
        behind = "cpu" if wanted.type == "cuda" else wanted
        generator: VirtualGenerator = super().__new__(cls, behind)  # type: ignore[call-arg] # a C type
        generator._device = torch.device("cuda", 0) if wanted.type == "cuda" else wanted
        return generator

    @property
    def device(self) -> torch.device:  # type: ignore[override] # read-only in C too
        """The device that was asked for."""
        return self._device

    _device: torch.device


def install_generator() -> None:
    """Let ``torch.Generator(device="cuda")`` be made."""
    torch.Generator = VirtualGenerator  # type: ignore[misc]
