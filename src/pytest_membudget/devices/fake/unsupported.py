"""What cannot work on the virtual device, or not on a real one: it says so, where it would fail obscurely."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from .functional_gradients import install_functional_gradients
from .refusals import refusal

aten = torch.ops.aten

#: Products of two matrices of one type.
PRODUCTS = frozenset({
    aten.mm.default, aten.addmm.default, aten.addmm_.default, aten.bmm.default, aten.baddbmm.default,
    aten.baddbmm_.default, aten.mv.default, aten.addmv.default, aten.dot.default,
})  # fmt: skip

NESTED = "nn.Transformer's fast path in inference (nested tensors): traced with its padding"


def install_refusals(note: Callable[[str], None]) -> None:
    """Let those parts raise ``NotAvailable``, or take the path that works; ``note`` is called with that."""
    install_functional_gradients()
    _refuse_lazy_modules()
    _keep_off_nested_tensors(note)
    _profile_host_only()
    for name in ("__getitem__", "byteswap", "cpu", "cuda", "pin_memory", "share_memory_", "to"):
        _refuse_of_fake_storages(torch.UntypedStorage, name)
    _refuse_of_fake_storages(torch.TypedStorage, "__getitem__")


def _refuse_lazy_modules() -> None:
    def refuse(cls: type, *args: object, **kwargs: object) -> Any:
        raise refusal(
            f"{cls.__name__} (lazy modules) is not part of the virtual device that budgets are estimated on; "
            "give the module its sizes, as in nn.Linear(in_features, out_features)"
        )

    for kind in (torch.nn.parameter.UninitializedParameter, torch.nn.parameter.UninitializedBuffer):
        kind.__new__ = refuse  # type: ignore[method-assign]


def _keep_off_nested_tensors(note: Callable[[str], None]) -> None:
    enabled = torch.backends.mha.get_fastpath_enabled

    def get_fastpath_enabled() -> bool:
        if enabled() and not torch.is_grad_enabled():
            note(NESTED)
        return False

    torch.backends.mha.get_fastpath_enabled = get_fastpath_enabled


def _refuse_of_fake_storages(kind: Any, name: str) -> None:
    """Refuse what reads or moves a storage's bytes: those of fake tensors are on meta, and there are none."""
    original = getattr(kind, name)

    @functools.wraps(original)
    def method(storage: Any, *args: Any, **kwargs: Any) -> Any:
        if storage.device.type == "meta":
            raise refusal(
                f"{kind.__name__}.{name} is not part of the virtual device, whose storages have no bytes; "
                "use the tensor"
            )
        return original(storage, *args, **kwargs)

    setattr(kind, name, method)


def _profile_host_only() -> None:
    """A profiler that is to listen to CUDA would complain of each operator, with a C++ traceback."""
    profile: Any = torch.autograd.profiler.profile
    original = profile.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **{**kwargs, "use_device": None})

    profile.__init__ = init


def refuse_mixed_types(name: str, operands: Sequence[Any]) -> None:
    """Raise as CUDA does where a product's two matrices differ in type, which fake kernels let pass."""
    matrices = [one for one in operands if isinstance(one, FakeTensor)][-2:]
    if len({one.dtype for one in matrices}) > 1:
        first, second = (str(one.dtype).removeprefix("torch.") for one in matrices)
        raise RuntimeError(
            f"{name}: expected both matrices to have the same dtype, but got: {first} != {second}"
        )
