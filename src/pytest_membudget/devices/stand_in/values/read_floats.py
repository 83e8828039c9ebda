"""Floating-point numbers that were read of unknown data: a whole number made of one may be a size."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final

import torch

from .reads import Reads

_ARITHMETIC: Final = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
_OF_ONE: Final = ("__neg__", "__pos__", "__abs__")


class ReadFloat(float):
    """Is listed where a whole number is made of it; what arithmetic makes of it is one too.

    Lost where a plain ``float`` is made: by ``float()``, functions of ``math`` and numpy, and pickling.
    """

    __slots__ = ("made_whole",)

    #: called with each whole number
    made_whole: Callable[[int], object]

    def __new__(cls, value: float, made_whole: Callable[[int], object]) -> ReadFloat:
        """``value``, of which ``made_whole`` is called with each whole number that is made."""
        number = super().__new__(cls, value)
        number.made_whole = made_whole
        return number

    def __int__(self) -> int:
        return self._whole(float.__int__(self))

    __trunc__ = __int__

    def __floor__(self) -> int:
        return self._whole(math.floor(float(self)))

    def __ceil__(self) -> int:
        return self._whole(math.ceil(float(self)))

    def __round__(self, digits: Any = None) -> Any:
        rounded = float.__round__(self, digits)
        return self._whole(rounded) if isinstance(rounded, int) else ReadFloat(rounded, self.made_whole)

    def __reduce_ex__(self, protocol: object) -> Any:
        return float, (float(self),)

    def _whole(self, number: int) -> int:
        self.made_whole(number)
        return number


def _following(name: str) -> Any:
    compute: Any = getattr(float, name)

    def run(number: ReadFloat, *others: Any) -> Any:
        result = compute(number, *others)
        return ReadFloat(result, number.made_whole) if isinstance(result, float) else result

    return run


for _name in (*_OF_ONE, *(f"__{side}{name}__" for name in _ARITHMETIC for side in ("", "r"))):
    setattr(ReadFloat, _name, _following(_name))


def install_read_floats(reads: Reads) -> None:
    """Let ``Tensor.item`` give a ``ReadFloat`` where it reads unknown data, and ``int(tensor)`` list one."""
    tensors: Any = torch.Tensor
    read_item, read_int = tensors.item, tensors.__int__

    def item(tensor: torch.Tensor) -> Any:
        before = reads.floats
        value = read_item(tensor)
        if type(value) is not float or reads.floats == before:
            return value
        return ReadFloat(value, functools.partial(reads.list_whole, tensor.dtype))

    def to_int(tensor: torch.Tensor) -> int:
        before = reads.floats
        number: int = read_int(tensor)
        if reads.floats != before:
            reads.list_whole(tensor.dtype, number)
        return number

    tensors.item, tensors.__int__ = item, to_int
