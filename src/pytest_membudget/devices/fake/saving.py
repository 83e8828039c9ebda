"""Fake tensors that are copied, pickled, saved and loaded: their shapes, and what is known of them.

A checkpoint that is saved on the virtual device holds no data and is small, whatever the model's size.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from .known_values import KnownValues

#: Set on the storage object: its replacement in pickles, so that tensors that share it still do.
_SAVED = "_membudget_saved"


class _SavedStorage:
    """A storage in a pickle: ``count`` elements on ``device``, and their ``values`` where they are known."""

    def __init__(self, count: int, dtype: torch.dtype, device: str, values: Any) -> None:
        self._recipe = count, dtype, device, values

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return restore_storage, self._recipe


class _Locations:
    """Where ``torch.load`` puts what it finds: its ``map_location``."""

    def __init__(self) -> None:
        self.stack: list[Any] = [None]

    @contextlib.contextmanager
    def mapped(self, map_location: Any) -> Iterator[None]:
        """Within, tensors are restored to ``map_location``."""
        self.stack.append(map_location)
        try:
            yield
        finally:
            self.stack.pop()

    def of(self, device: str) -> Any:
        """The device for what was on ``device``."""
        location = self.stack[-1]
        if location is None:
            return device
        if isinstance(location, dict):
            return location.get(device, device)
        if not callable(location) or isinstance(location, (str, torch.device)):
            return location
        found = location(torch.UntypedStorage(0), device)
        return device if found is None else found.device


_locations = _Locations()


def restored_on(device: Any) -> contextlib.AbstractContextManager[None]:
    """Within, pickled tensors are restored to ``device``."""
    return _locations.mapped(device)


def install_saving(known: KnownValues, on_loaded: Callable[[torch.Tensor], None]) -> None:
    """Let fake tensors be copied, pickled, saved and loaded.

    ``on_loaded`` is called with each tensor that ``torch.load`` makes of a real file's.
    """
    fake: Any = FakeTensor

    def reduce_ex(tensor: torch.Tensor, protocol: object) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        shape = tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
        kind = isinstance(tensor, torch.nn.Parameter), tensor.requires_grad
        return restore_tensor, (_saved_storage(known, tensor), tensor.dtype, *shape, *kind)

    fake.__reduce_ex__ = reduce_ex
    fake.__deepcopy__ = _deepcopy
    torch.serialization.add_safe_globals([restore_storage, restore_tensor])
    _install_load()
    _install_storages_as_arrays()
    _install_restored(on_loaded)


def restore_storage(count: int, dtype: torch.dtype, device: str, values: Any) -> torch.Tensor:
    """A flat tensor for a saved storage, on the device that ``torch.load`` maps to."""
    target = _locations.of(device)
    if isinstance(values, list):
        return torch.tensor(values, dtype=dtype, device=target)
    if values is not None:
        return torch.full((count,), values, dtype=dtype, device=target)
    return torch.empty(count, dtype=dtype, device=target)


def restore_tensor(
    flat: torch.Tensor,
    dtype: torch.dtype,
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    offset: int,
    is_parameter: bool,
    requires_grad: bool,
) -> torch.Tensor:
    """A tensor of a saved storage."""
    with torch.no_grad():
        tensor = (flat if flat.dtype is dtype else flat.view(dtype)).as_strided(sizes, strides, offset)
        tensor = tensor.detach()
    return torch.nn.Parameter(tensor, requires_grad) if is_parameter else tensor.requires_grad_(requires_grad)


def _saved_storage(known: KnownValues, tensor: torch.Tensor) -> _SavedStorage:
    storage = tensor.untyped_storage()
    saved = getattr(storage, _SAVED, None)
    if saved is None:
        count = storage.nbytes() // tensor.itemsize
        saved = _SavedStorage(count, tensor.dtype, str(tensor.device), None)
        setattr(storage, _SAVED, saved)
    values: Any = known.stored(tensor)
    if isinstance(values, torch.Tensor):
        with torch._C._DisableTorchDispatch():
            values = values.tolist()
    saved._recipe = (*saved._recipe[:3], values)
    return saved


def _deepcopy(tensor: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
    if isinstance(tensor, torch.nn.Parameter):
        copy_parameter: Any = torch.Tensor.__deepcopy__  # as ``patches`` has it
        return copy_parameter(tensor, memo)  # type: ignore[no-any-return]
    if not tensor.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol "
            "at the moment."
        )
    if id(tensor) in memo:
        return memo[id(tensor)]  # type: ignore[no-any-return]
    storage = tensor.untyped_storage()
    if storage._cdata not in memo:  # tensors that share memory share that of the copy
        with torch.no_grad():
            memo[storage._cdata] = tensor.as_strided((storage.nbytes() // tensor.itemsize,), (1,), 0).clone()
    copied = restore_tensor(
        memo[storage._cdata], tensor.dtype, tuple(tensor.shape), tensor.stride(),
        int(tensor.storage_offset()), False, tensor.requires_grad,
    )  # fmt: skip
    if tensor.grad is not None:
        copied.grad = copy.deepcopy(tensor.grad, memo)
    for name, value in vars(tensor).items():
        if name not in vars(copied):
            setattr(copied, name, copy.deepcopy(value, memo))
    memo[id(tensor)] = copied
    return copied


def _install_load() -> None:
    original: Any = torch.load

    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        with _locations.mapped(map_location):
            return original(f, map_location, *args, **kwargs)

    torch.load = load


def _install_storages_as_arrays() -> None:
    """Let ``torch.asarray`` take a storage of a file's real data, as safetensors hands it."""
    original: Any = torch.asarray

    def asarray(obj: Any, **kwargs: Any) -> torch.Tensor:
        if not isinstance(obj, torch.UntypedStorage) or obj.device.type == "meta":
            return original(obj, **kwargs)  # type: ignore[no-any-return]
        with _disable_current_modes():
            real = original(obj, **kwargs)
        fake: torch.Tensor = torch.ops.aten.lift_fresh.default(real)
        return fake

    torch.asarray = asarray


def _install_restored(on_loaded: Callable[[torch.Tensor], None]) -> None:
    module: Any = torch._utils
    original = module._restore_device_fake_mode

    def restored(tensor: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = original(tensor)
        on_loaded(result)
        return result

    module._restore_device_fake_mode = restored
