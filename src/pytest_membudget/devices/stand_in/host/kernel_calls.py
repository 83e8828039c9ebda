"""Calls of PyTorch's own kernel from what replaces it."""

from __future__ import annotations

import threading
from typing import Any, Final

import torch

#: Kinds of numbers in the order of type promotion, with what a tensor made of one holds.
_KINDS: Final = ((bool, torch.bool), (int, torch.int64), (float, torch.float64), (complex, torch.complex128))


class KernelCall:
    """Calls ``kernel``, the one that ``operator`` had for host tensors.

    Where the user wrote a number (``x + 0.5``), C++ gives the kernel a tensor of it that is marked as a
    number for type promotion, and gives Python the number. A call of the whole operator makes that tensor
    again: it ends in the replacement again, which then calls the kernel. Not all operators take numbers so
    (torch 2.11 to 2.15: ToIValueAllowNumbersAsTensors in torch/csrc/jit/python/pybind_utils.h).
    """

    def __init__(self, operator: Any, kernel: Any) -> None:
        self._operator = operator
        self._kernel = kernel
        self._turn = threading.local()
        schema = operator._schema
        self._tensors = [
            index for index, argument in enumerate(schema.arguments) if str(argument.type) == "Tensor"
        ]
        self._takes_numbers = torch._C._should_allow_numbers_as_tensors(schema.name.partition("::")[2])

    def is_again(self) -> bool:
        """Whether this thread is in the operator's second call."""
        return getattr(self._turn, "is_again", False)

    def __call__(self, keys: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the kernel gives."""
        if self.is_again():
            self._turn.is_again = False
        elif any(index < len(args) and _is_number(args[index]) for index in self._tensors):
            if self._takes_numbers:
                return self._call_again(args, kwargs)
            args = tuple(self._as_tensor(index, args) for index in range(len(args)))
        return self._kernel.call_boxed(keys, *args, **kwargs)

    def _call_again(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._turn.is_again = True
        try:
            return self._operator(*args, **kwargs)
        finally:
            self._turn.is_again = False

    def _as_tensor(self, index: int, args: tuple[Any, ...]) -> Any:
        """An argument as the kernel takes it: for a number, a tensor that promotes types as it does."""
        value = args[index]
        if index not in self._tensors or not _is_number(value):
            return value
        tensors = [other for other in args if isinstance(other, torch.Tensor)]
        dtype = next(dtype for kind, dtype in _KINDS if isinstance(value, kind))
        typed = [other for other in tensors if _kind_of(other.dtype) >= _kind_of(dtype)]
        if not typed:
            return torch.tensor(value)  # of the default type
        has_elements = any(other.dim() for other in typed)
        return torch.tensor(value, dtype=dtype if has_elements else typed[0].dtype)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, complex))


def _kind_of(dtype: torch.dtype) -> int:
    if dtype.is_complex:
        return 3
    return 2 if dtype.is_floating_point else int(dtype is not torch.bool)
