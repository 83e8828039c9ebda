"""What is known of the values in fake tensors, so that reads of data get the right answer where one exists.

A fake tensor holds no data, yet many values follow from the program alone: positions, masks made from
shapes, token ids given in the test, a GradScaler's ``found_inf``. They are followed here: small integer and
boolean tensors, and single numbers, are computed for real beside the fake run; tensors whose elements are
all the same are known by that one value. Any other read gets a plausible value, which the report lists.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

Scalar = bool | int | float | complex
aten = torch.ops.aten

#: Larger tensors are known only if all their elements are the same.
MOST_ELEMENTS = 2**16

#: Operators whose result has one value throughout, which this function gives for their arguments.
_UNIFORM: dict[Any, Callable[[Sequence[Any]], Scalar]] = {
    aten.zeros.default: lambda args: 0,
    aten.zeros_like.default: lambda args: 0,
    aten.new_zeros.default: lambda args: 0,
    aten.ones.default: lambda args: 1,
    aten.ones_like.default: lambda args: 1,
    aten.new_ones.default: lambda args: 1,
    aten.full.default: lambda args: args[1],
    aten.full_like.default: lambda args: args[1],
    aten.new_full.default: lambda args: args[2],
    aten.scalar_tensor.default: lambda args: args[0],
    aten.fill_.Scalar: lambda args: args[1],
    aten.zero_.default: lambda args: 0,
    # a run whose values are not finite has no memory figure of its own: the estimate is of a healthy one
    aten.isnan.default: lambda args: False,
    aten.isinf.default: lambda args: False,
    aten.isposinf.default: lambda args: False,
    aten.isneginf.default: lambda args: False,
}

#: Operators that keep a uniform tensor uniform, with the same value.
_SAME = frozenset({
    aten.clone.default, aten._to_copy.default, aten.all.default, aten.all.dim, aten.any.default,
    aten.any.dim, aten.amax.default, aten.amin.default, aten.max.default, aten.min.default,
})  # fmt: skip

#: Operators on two masks or one that keep uniform tensors uniform.
_LOGIC = frozenset({
    aten.logical_not.default, aten.logical_and.default, aten.logical_or.default, aten.bitwise_not.default,
    aten.bitwise_and.Tensor, aten.bitwise_or.Tensor, aten.eq.Scalar, aten.ne.Scalar, aten.mul.Tensor,
})  # fmt: skip

#: These write to tensors without changing what is known of them: a healthy run overflows nowhere.
_KEEPS = frozenset({aten._amp_foreach_non_finite_check_and_unscale_.default, aten._amp_update_scale_.default})


class KnownValues:
    """Values by storage: a real host storage for small ones, one value for uniform ones."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[Any], Scalar | torch.Tensor]] = {}

    @staticmethod
    def sets_values(func: Any) -> bool:
        """Whether ``func`` says something about values whatever its result's type: it fills, or writes."""
        return func in _UNIFORM or func._schema.is_mutable

    def of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The values of ``tensor`` as a real host tensor of its shape, if they are known; read only."""
        if type(tensor) is torch.Tensor:
            return tensor if tensor.device.type == "cpu" else None
        constant = getattr(tensor, "constant", None)
        if constant is not None:
            return constant  # type: ignore[no-any-return]
        entry = self._entry(tensor)
        if isinstance(entry, torch.Tensor):
            shape, stride = tuple(tensor.shape), tensor.stride()
            return entry.view(tensor.dtype).as_strided(shape, stride, tensor.storage_offset())
        if entry is None or tensor.numel() > MOST_ELEMENTS:
            return None
        return torch.tensor(entry, dtype=tensor.dtype).expand(tuple(tensor.shape))

    def uniform(self, tensor: torch.Tensor) -> Scalar | None:
        """The one value of all elements of ``tensor``'s storage, if that is what is known."""
        entry = self._entry(tensor)
        return None if isinstance(entry, torch.Tensor) else entry

    def learn(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: object) -> None:
        """Note what ``func(*args, **kwargs)`` says about the values of ``result``, or of what it wrote to."""
        rule = _UNIFORM.get(func)
        if rule is not None:
            self._note(result, rule(args))
        elif func._schema.is_mutable:
            self._write(func, args, kwargs)
        elif isinstance(result, torch.Tensor):
            value = self._uniform_result(func, args)
            if value is not None:
                self._note(result, value)
            elif result.numel() <= MOST_ELEMENTS:
                self._compute(func, args, kwargs, result)

    def copy_from_host(self, tensor: torch.Tensor, values: torch.Tensor) -> None:
        """``tensor`` was made from the real ``values``: token ids, a table in the test."""
        if values.device.type == "cpu" and values.numel() <= MOST_ELEMENTS and decides_something(values):
            self._keep(tensor, values.clone(memory_format=torch.contiguous_format))

    def _entry(self, tensor: torch.Tensor) -> Scalar | torch.Tensor | None:
        if not self._entries:
            return None
        storage = tensor.untyped_storage()
        entry = self._entries.get(storage._cdata)
        return entry[1] if entry is not None and entry[0]() is storage else None

    def _uniform_result(self, func: Any, args: Sequence[Any]) -> Scalar | None:
        if func is aten.eq.Tensor and args[0] is args[1]:
            return True  # x == x: the first half of isfinite
        if func is aten.ne.Scalar and args[1] == float("inf"):
            return True  # abs(x) != inf: the second half
        if func in _SAME:
            return self.uniform(args[0])
        if func not in _LOGIC:
            return None
        single = [torch.tensor(self.uniform(arg)) if isinstance(arg, torch.Tensor) and
                  self.uniform(arg) is not None else arg for arg in args]  # fmt: skip
        if any(isinstance(arg, torch.Tensor) and arg is one for arg, one in zip(args, single, strict=True)):
            return None
        value: Scalar = func(*single).item()
        return value

    def _compute(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
        """Run ``func`` on the host where all its inputs are known; torch's own operators only."""
        if func.namespace != "aten" or torch.Tag.nondeterministic_seeded in func.tags:
            return
        if func.name().startswith(("aten::empty", "aten::new_empty")):
            return
        real_args = self._as_real(args)
        real_kwargs = self._as_real(list(kwargs.values()))
        if real_args is None or real_kwargs is None:
            return
        try:
            values = func(*real_args, **dict(zip(kwargs, real_kwargs, strict=True)))
        except Exception:
            return  # not to be run on the host: the values stay unknown, and a read of them is listed
        if isinstance(values, torch.Tensor) and values.dtype is result.dtype:
            self._keep(result, values)

    def _as_real(self, values: Sequence[Any]) -> list[Any] | None:
        """``values`` with real tensors for fake ones and the host for a device; None if any is unknown."""
        real: list[Any] = []
        for value in values:
            if isinstance(value, torch.Tensor):
                known = self.of(value) if value.numel() <= MOST_ELEMENTS else None
                if known is None:
                    return None
                real.append(known)
            elif isinstance(value, (list, tuple)):
                inner = self._as_real(value)
                if inner is None:
                    return None
                real.append(inner)
            else:
                real.append(torch.device("cpu") if isinstance(value, torch.device) else value)
        return real

    def _write(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        if not self._entries or func in _KEEPS:
            return
        written = args[0] if isinstance(args[0], (list, tuple)) else args[:1]
        known = [
            tensor
            for tensor in written
            if isinstance(tensor, torch.Tensor) and self._entry(tensor) is not None
        ]
        for tensor in known:
            self._entries.pop(tensor.untyped_storage()._cdata, None)

    def _keep(self, tensor: torch.Tensor, values: torch.Tensor) -> None:
        if values.stride() != tensor.stride() or tensor.storage_offset() or values.storage_offset():
            return
        if values.untyped_storage().nbytes() == tensor.untyped_storage().nbytes():
            self._note(
                tensor,
                values.detach().as_strided((values.untyped_storage().nbytes() // values.itemsize,), (1,)),
            )

    def _note(self, tensor: Any, value: Scalar | torch.Tensor) -> None:
        if not isinstance(value, (bool, int, float, complex, torch.Tensor)):
            return
        storage = tensor.untyped_storage()
        if len(self._entries) > _MANY:
            self._entries = {key: entry for key, entry in self._entries.items() if entry[0]() is not None}
        self._entries[storage._cdata] = (weakref.ref(storage), value)


#: Entries of dead storages are thrown out when there are more entries than this.
_MANY = 4096


def decides_something(tensor: object) -> bool:
    """Whole numbers and masks decide what code does; of the rest, only single numbers are read."""
    return isinstance(tensor, torch.Tensor) and (not tensor.dtype.is_floating_point or tensor.numel() == 1)


def plausible(dtype: torch.dtype) -> Scalar:
    """The answer to a read of unknown data: 1 of any number type, False of a boolean.

    True for every boolean would skip layers (layer drop) and loop for ever (``trunc_normal_``).
    """
    if dtype is torch.bool:
        return False
    if dtype.is_complex:
        return complex(1)
    return 1.0 if dtype.is_floating_point else 1
