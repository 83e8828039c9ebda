"""What C++ gets when it asks a fake tensor for its device."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from types import FrameType, FunctionType
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.utils._python_dispatch import TorchDispatchMode

META = torch.device("meta")
PRIM_DEVICE = torch.ops.prim.device.default

_ENGINE_ENTRY = torch.autograd.graph._engine_run_backward.__code__


def install_device_query() -> None:
    """Answer ``meta`` for cuda to the autograd engine, and the fake device to everybody else.

    The engine asks for a device to find the stream and the thread that its work belongs to, and a device
    that is not there has neither; ``meta`` needs none. Autocast, composite kernels and user code must see
    cuda. C++ asks through the operator ``prim.device``, so the nearest Python frame shows who asks.
    """
    original = FakeTensor.__torch_dispatch__.__func__  # type: ignore[attr-defined]

    def dispatch(cls: type, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is PRIM_DEVICE:
            return answer(args[0], sys._getframe(0).f_back)
        return original(cls, func, types, args, kwargs or {})

    def handle(args: Sequence[Any]) -> torch.device:
        return answer(args[0], sys._getframe(0).f_back)

    FakeTensor.__torch_dispatch__ = classmethod(dispatch)  # type: ignore[assignment]
    fake_tensor._DISPATCH_META_HANDLERS[PRIM_DEVICE] = handle
    _answer_for_modes()


def _answer_for_modes() -> None:
    """Answer where a mode of the user's leaves the question to the tensor, and the tensor is a DTensor.

    PyTorch then looks for a kernel of ``prim::device``, which has none.
    """
    kind: Any = TorchDispatchMode
    original = kind.__init_subclass__.__func__

    def init_subclass(cls: Any, /, **kwargs: Any) -> None:
        own = cls.__dict__.get("__torch_dispatch__")
        if isinstance(own, FunctionType):
            cls.__torch_dispatch__ = _answering(own)
        original(cls, **kwargs)

    kind.__init_subclass__ = classmethod(init_subclass)


def _answering(own: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(own)
    def dispatch(mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = own(mode, func, types, args, kwargs)
        if result is NotImplemented and func is PRIM_DEVICE:
            return answer(args[0], sys._getframe(0).f_back)
        return result

    return dispatch


def answer(tensor: Any, frame: FrameType | None) -> torch.device:
    """The device of ``tensor``, or of what a wrapper is around, for whoever called from ``frame``."""
    while not isinstance(tensor, FakeTensor):
        tensor = _inside(tensor)
    if tensor.fake_mode.in_kernel_invocation:
        return META
    device: torch.device = tensor.fake_device
    # a host tensor has no stream to ask for, and backward formulas copy the device that they get
    return META if device.type == "cuda" and called_by_engine(frame) else device


def _inside(tensor: Any) -> Any:
    """What a wrapper is around: a functional tensor of a region that is compiled, or a DTensor."""
    if isinstance(tensor, FunctionalTensor):
        return tensor.elem
    if torch._is_functional_tensor(tensor):
        return torch._from_functional_tensor(tensor)
    return tensor._local_tensor


def called_by_engine(frame: FrameType | None) -> bool:
    """Whether ``frame``, dispatch modes left out, is the call into the autograd engine.

    No frame at all is a thread of the engine's own.
    """
    while frame is not None and frame.f_code.co_name in _DISPATCHERS:
        frame = frame.f_back
    return frame is None or frame.f_code is _ENGINE_ENTRY


#: Frames between C++ and us while a query is dispatched: a mode's own method and its wrappers.
_DISPATCHERS = frozenset(
    {
        "__torch_dispatch__",
        "dispatch",
        "handle",
        "wrapper",
        "inner",
        "_fn",
        "__call__",
        "handle_torch_function",
    }
)
