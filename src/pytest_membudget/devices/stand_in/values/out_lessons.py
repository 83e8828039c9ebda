"""What operators with ``out=`` do to values.

Many of PyTorch's operators allocate their result and have the kernel for ``out=`` fill it: ``arange``,
``logical_and``. Their lesson is that of the operator without ``out``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .drawing import drawing_of
from .known_values import KnownValues
from .learning import Lesson, lesson_of

#: What operators that make a tensor take, and those with ``out`` have from it.
_OF_NEW_TENSORS = frozenset({"dtype", "layout", "device", "pin_memory", "memory_format"})


def lesson_with_out(operator: Any) -> tuple[Any, Lesson | None]:
    """The operator that ``operator`` is known as, and what a call says about values."""
    outs = _outs(operator)
    if not outs or drawing_of(operator) is not None:
        return operator, lesson_of(operator)
    twin = _without_out(operator, outs)
    lesson = lesson_of(twin) if twin is not None else None
    if twin is None or lesson is None:
        return operator, lesson_of(operator)
    with_dtype = any(argument.name == "dtype" for argument in twin._schema.arguments)
    takes_tensors = any("Tensor" in str(argument.type) for argument in twin._schema.arguments)
    return twin, _WithOut(lesson, outs, with_dtype, takes_tensors)


class _WithOut:
    """The lesson of an operator with ``out``: that of the one without it."""

    def __init__(self, lesson: Lesson, outs: Sequence[str], with_dtype: bool, takes_tensors: bool) -> None:
        self._lesson = lesson
        self._outs = outs
        self._with_dtype = with_dtype
        #: ``arange`` takes none: it says what its result is all the same
        self.needs_known = takes_tensors and getattr(lesson, "needs_known", False)

    def __call__(
        self, known: KnownValues, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any
    ) -> None:
        inputs = {name: value for name, value in kwargs.items() if name not in self._outs}
        if result is None:  # a list that is written to is not given back: ``split_with_sizes_copy.out``
            result = [tensor for name in self._outs for tensor in kwargs[name]]
        results = result if isinstance(result, (tuple, list)) else (result,)
        for out in results:
            known.forget(out)
        if self._with_dtype and "dtype" not in inputs:
            inputs["dtype"] = results[0].dtype
        self._lesson(known, args, inputs, result)


def _outs(operator: Any) -> tuple[str, ...]:
    return tuple(argument.name for argument in operator._schema.arguments if argument.is_out)


def _without_out(operator: Any, outs: Sequence[str]) -> Any:
    wanted = [_described(one) for one in operator._schema.arguments if one.name not in outs]
    packet = operator.overloadpacket
    for candidate in (getattr(packet, overload) for overload in packet.overloads()):
        if candidate._schema.is_mutable or candidate.is_view:
            continue
        arguments = [_described(one) for one in candidate._schema.arguments]
        if wanted in (arguments, [one for one in arguments if one[0] not in _OF_NEW_TENSORS]):
            return candidate
    return None


def _described(argument: torch._C.Argument) -> tuple[str, str]:
    return argument.name, str(argument.type)
