"""Calls of PyTorch's own kernel from what replaces it."""

from __future__ import annotations

import threading
from typing import Any


class KernelCall:
    """Calls ``kernel``, the one that ``operator`` had for host tensors.

    Where the user wrote a number (``x + 0.5``) the operator's C++ gives the kernel a tensor of it, marked as a
    number for type promotion, and gives Python the number. Only a call of the whole operator makes that tensor
    again: it ends in the replacement again, which then calls the kernel (torch 2.11 to 2.15:
    ToIValueAllowNumbersAsTensors in torch/csrc/jit/python/pybind_utils.h).
    """

    def __init__(self, operator: Any, kernel: Any) -> None:
        self._operator = operator
        self._kernel = kernel
        self._turn = threading.local()
        self._tensors = [
            index for index, argument in enumerate(operator._schema.arguments) if str(argument.type) == "Tensor"
        ]

    def is_again(self) -> bool:
        """Whether this thread is in the operator's second call."""
        return getattr(self._turn, "is_again", False)

    def __call__(self, keys: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the kernel gives."""
        if self.is_again():
            self._turn.is_again = False
        elif any(index < len(args) and isinstance(args[index], (int, float, complex)) for index in self._tensors):
            self._turn.is_again = True
            try:
                return self._operator(*args, **kwargs)
            finally:
                self._turn.is_again = False
        return self._kernel.call_boxed(keys, *args, **kwargs)
