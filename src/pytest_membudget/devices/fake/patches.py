"""Changes to torch that make it behave on the virtual device as on a real one; for the whole process."""

from __future__ import annotations

import copyreg
import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor


def install_optimizer_defaults() -> None:
    """Let optimizers and clipping treat fake tensors as the plain ones they represent.

    ``foreach`` is the default on CUDA for tensors of these types only.
    """
    for module in ("torch.optim.optimizer", "torch.utils._foreach_utils"):
        types: list[type] = importlib.import_module(module)._foreach_supported_types
        if FakeTensor not in types:
            types.append(FakeTensor)


def install_conversions(on_parameter: Callable[[torch.Tensor], None]) -> None:
    """Make ``Module.to`` and the like work on fake parameters, with the lifetimes of real ones.

    ``on_parameter`` is called with each parameter that has other memory now.
    """

    def exchange(first: torch.Tensor, second: torch.Tensor) -> None:
        _exchange(first, second)
        if isinstance(first, torch.nn.Parameter):
            on_parameter(first)

    torch.utils.swap_tensors = exchange
    fake_tensor.init_gpu_context = lambda *args: None  # type: ignore[assignment]


def _exchange(first: torch.Tensor, second: torch.Tensor) -> None:
    """``torch.utils.swap_tensors`` for fake tensors, which their mode holds weak references to.

    ``nn.Module._apply`` swaps only fake parameters; it writes to ``.data`` of real ones, and then the new
    tensor and the parameter share the new memory while the old memory is free. So ``second`` ends as an
    alias of ``first`` here, and does not keep the old memory until the caller lets go of it.
    """
    is_mixed = isinstance(first, FakeTensor) != isinstance(second, FakeTensor)
    _swap_implementations(first, second)
    if isinstance(first, FakeTensor) and not is_mixed:
        with torch.no_grad():
            _swap_implementations(second, first.detach())


def _swap_implementations(first: torch.Tensor, second: torch.Tensor) -> None:
    if isinstance(first, FakeTensor) and isinstance(second, FakeTensor):
        # what a user set on a parameter stays with it, as with real ones
        first.fake_device, second.fake_device = second.fake_device, first.fake_device
        first.constant, second.constant = second.constant, first.constant
    else:
        if type(first) is not type(second):  # a parameter becomes a wrapper: a quantised weight
            first.__class__, second.__class__ = second.__class__, first.__class__
        _swap_attributes(first, second)
    torch._C._swap_tensor_impl(first, second)


def _swap_attributes(first: Any, second: Any) -> None:
    """What Python keeps of a wrapper (DTensor), where torch's own ``swap_tensors`` swaps it too."""
    first.__dict__, second.__dict__ = second.__dict__, first.__dict__
    for name in copyreg._slotnames(first.__class__):  # type: ignore[attr-defined]
        held = [getattr(tensor, name) for tensor in (second, first) if hasattr(tensor, name)]
        if len(held) == 2:
            setattr(first, name, held[0])
            setattr(second, name, held[1])


def install_copies(on_parameter: Callable[[torch.Tensor], None]) -> None:
    """Let fake parameters be copied as ``nn.Parameter`` copies real ones: the data, and no gradient.

    ``on_parameter`` is called with each copy, which no module registers.
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
