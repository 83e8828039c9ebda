"""Finds the tensors that own memory inside wrappers (DTensor), sparse tensors and quantised weights."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import UninitializedBuffer, UninitializedParameter

#: Attributes of a parameter that hold what its numbers are scaled by (bitsandbytes 0.50.2, nn/modules.py:
#: Params4bit, Int8Params).
_SCALES: Final = ("quant_state", "SCB")

_WITHOUT_STORAGE: Final = (FakeTensor, UninitializedParameter, UninitializedBuffer)


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors among ``value``, with those in lists, tuples and mappings."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from tensors_in(one)
    elif isinstance(value, Mapping):
        yield from tensors_in([*value.values()])


def owners(tensor: torch.Tensor) -> Iterable[torch.Tensor]:
    """``tensor`` itself, or the tensors inside it where it is a wrapper (DTensor, torch.func's) or sparse.

    These show the global shape and have no memory.
    """
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    if tensor.layout is not torch.strided:
        return _sparse_parts(tensor) or (tensor,)
    flatten = getattr(type(tensor), "__tensor_flatten__", None)
    return (tensor,) if flatten is None else _inside(tensor, flatten(tensor)[0])


def dtype_name(dtype: torch.dtype) -> str:
    """As ``bfloat16``."""
    return str(dtype).removeprefix("torch.")


def owns_storage(tensor: torch.Tensor) -> bool:
    """Whether ``tensor`` has a storage: sparse tensors and those inside torch.func have none.

    Nor have fake ones, by which DTensor finds out how results are sharded, and lazy ones before their first
    forward.
    """
    if tensor.layout is not torch.strided or isinstance(tensor, _WITHOUT_STORAGE):
        return False
    return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def storage_begin(value: Any) -> int:
    """Where the storage of ``value`` begins; 0 for what has none, as what ``torch.export`` traces with.

    Without ``untyped_storage()``: autograd does not add in place to a storage that Python has an object of.
    """
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return 0
    try:
        return value.data_ptr() - int(value.storage_offset()) * value.itemsize
    except RuntimeError:
        return 0


def _sparse_parts(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    if tensor.layout is torch.sparse_coo:
        return tensor._values(), tensor._indices()
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.values(), tensor.crow_indices(), tensor.col_indices()
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return tensor.values(), tensor.ccol_indices(), tensor.row_indices()
    return ()


def scales(parameter: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """The scales of a quantised ``parameter``, by attribute: ``quant_state.absmax``."""
    attributes = getattr(parameter, "__dict__", None) or {}
    for name in _SCALES:
        yield from named_tensors(attributes.get(name), name)


def _inside(wrapper: torch.Tensor, names: Iterable[str]) -> Iterator[torch.Tensor]:
    for name in names:
        inner = getattr(wrapper, name)
        if isinstance(inner, torch.Tensor):
            yield from owners(inner)


def named_tensors(value: object, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors in ``value`` and in the containers in it, each with its path below ``name``."""
    if isinstance(value, torch.Tensor):
        yield name, value
        return
    if hasattr(value, "absmax"):  # a QuantState, whose own scales may be quantised too
        value = vars(value)
    if isinstance(value, (dict, list, tuple)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from named_tensors(inner, f"{name}.{key}" if name else str(key))
