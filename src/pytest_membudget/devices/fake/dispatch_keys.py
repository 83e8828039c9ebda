"""Keys of fake tensors' own cache of results, made in a tenth of the time.

``FakeTensorMode`` keeps what an operator gives by what it is given, and much of a trace is making that key:
of a tensor it asks 17 things, by way of Python and of the dispatcher. This key says the same of it: what is
left out follows from what is there (the memory format from sizes and strides) or is the same for all that
have a key at all (no sparse layouts). Where torch would make no key there is none here. Read in
torch/_subclasses/fake_tensor.py of the releases in ``KNOWN``; with others, and for what is seldom, torch's
own keys are used.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import get_proxy_mode

#: Whose ``_cache_key``, ``_prep_args_for_hash`` and ``extract_tensor_metadata`` are known.
KNOWN = ((2, 13), (2, 15))
#: What torch's own key has no second meaning for: only our keys begin with it.
_OURS = "pytest-membudget"
_Bypass: Any = fake_tensor._BypassDispatchCache
_Key: Any = fake_tensor._DispatchCacheKey
_strided = torch.strided
#: Most arguments are one of these.
_PLAIN = frozenset({int, float, bool, str, type(None), torch.dtype, torch.layout, torch.memory_format})


def knows_this_torch(release: str = torch.__version__) -> bool:
    """Whether this torch's own keys are known."""
    parts = release.split(".")[:2]
    return all(part.isdigit() for part in parts) and tuple(map(int, parts)) in KNOWN


class _Seldom(Exception):  # noqa: N818 - it is what was found
    """Something that torch's own key is to be made of."""


def cache_key(mode: FakeTensorMode, state: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """In place of ``FakeTensorMode._cache_key``, whose arguments it has.

    Raises torch's bypass where the result of ``func`` cannot be kept.
    """
    if mode.shape_env is None and not mode.in_kernel_invocation:
        try:
            return _key(mode, func, args, kwargs)
        except _Seldom:
            pass
    return FakeTensorMode._cache_key(mode, state, func, args, kwargs)


def _key(mode: FakeTensorMode, func: Any, args: Any, kwargs: Any) -> Any:
    values: list[object] = [
        _OURS,
        func,
        torch.get_default_dtype(),
        torch._C._get_default_device(),
        torch.is_inference_mode_enabled(),
        get_proxy_mode() is not None,
    ]
    _add(mode, values, args)
    if kwargs:
        values.append(tuple(kwargs))
        _add(mode, values, kwargs.values())
    return _Key(tuple(values))


def _add(mode: FakeTensorMode, values: list[object], args: Iterable[Any]) -> None:
    for arg in args:
        kind = type(arg)
        if isinstance(arg, FakeTensor):
            _add_tensor(mode, values, arg)
        elif kind in _PLAIN:
            values.append(kind)
            values.append(arg)
        elif kind is list or kind is tuple:
            values.append(kind)
            values.append(len(arg))
            _add(mode, values, arg)
        elif kind is torch.device and arg.index is not None:
            values.append(arg)
        else:
            raise _Seldom


def _add_tensor(mode: FakeTensorMode, values: list[object], tensor: FakeTensor) -> None:
    if tensor.fake_mode is not mode:
        raise _Bypass("not our fake")
    if tensor.constant is not None:
        raise _Bypass("constant attribute")
    if tensor.layout is not _strided:
        raise _Bypass(f"{tensor.layout} tensor")
    values.append(
        (
            tensor.dtype,
            tensor.shape,
            tensor.stride(),
            tensor.fake_device,
            tensor.storage_offset(),
            tensor.untyped_storage().nbytes(),
            tensor.requires_grad,
            tensor.is_conj(),
            tensor.is_neg(),
            tensor.is_inference(),
        )
    )
