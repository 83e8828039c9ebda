"""Large host tensors that are filled or copied: no pages are touched where what is there need not be known.

Random numbers are not drawn, zeros are fresh pages, and a copy of what was not computed is not made. All else
is written as always, and what was hollow before is not any more.
"""

from collections.abc import Callable
from typing import Any, Final

import torch

from .draw_ends import DRAW_ENDS
from .memory import Hollow, HostMemory

#: From here on a tensor is large: what the stand-in's runtime copies to a card is smaller.
LARGE_BYTES: Final = 1 << 20
#: From here on a tensor of one value other than zero is not written.
_LARGE_UNIFORM_BYTES: Final = 1 << 26

_DRAWS: Final = (
    "normal_", "uniform_", "random_", "random_.from", "random_.to", "bernoulli_.float", "bernoulli_.Tensor",
    "exponential_", "log_normal_", "cauchy_", "geometric_",
)  # fmt: skip
#: Where large tensors are filled; ``copy_`` too.
NAMES: Final = (*_DRAWS, "zero_", "fill_.Scalar", "fill_.Tensor", "copy_")

Kernel = Callable[..., Any]


class Fills:
    """The operators that fill, for host tensors."""

    def __init__(
        self, memory: HostMemory, on_copy: Callable[[torch.Tensor, torch.Tensor, int], None]
    ) -> None:
        """``on_copy``: called with the target and the source of a hollow copy, and why it is hollow."""
        self._memory = memory
        self._on_copy = on_copy

    def replacement(self, name: str, kernel: Kernel) -> Kernel:
        """What runs instead of ``kernel``, the operator ``name``'s for host tensors."""
        if name in _DRAWS:
            return self._draw(name, kernel)
        if name == "zero_":
            return self._zero(kernel)
        return self._copy(kernel) if name == "copy_" else self._fill(kernel)

    def _draw(self, name: str, kernel: Kernel) -> Kernel:
        def draw(keys: Any, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            is_float = tensor.is_floating_point() or tensor.is_complex()
            if tensor.nbytes < LARGE_BYTES or not is_float or not self._memory.holds(tensor):
                self._written(tensor)
                args = (*DRAW_ENDS.of_fill(name, tensor, args, kwargs.get("generator")),)
                result: torch.Tensor = kernel(keys, tensor, *args, **kwargs)
                return result
            self._memory.set_hollow(tensor, Hollow.NOT_COMPUTED)
            return tensor

        return draw

    def _zero(self, kernel: Kernel) -> Kernel:
        def zero(keys: Any, tensor: torch.Tensor) -> torch.Tensor:
            self._written(tensor)
            if tensor.nbytes < LARGE_BYTES or not is_dense(tensor) or not self._memory.zero(tensor):
                kernel(keys, tensor)
            return tensor

        return zero

    def _fill(self, kernel: Kernel) -> Kernel:
        def fill(keys: Any, tensor: torch.Tensor, value: Any) -> torch.Tensor:
            self._written(tensor)
            if tensor.nbytes >= LARGE_BYTES:
                if is_dense(tensor) and _is_zero(value) and self._memory.zero(tensor):
                    return tensor
                if tensor.nbytes >= _LARGE_UNIFORM_BYTES and self._memory.holds(tensor):
                    self._memory.set_hollow(tensor, Hollow.NOT_COMPUTED)
                    return tensor
            kernel(keys, tensor, value)
            return tensor

        return fill

    def _copy(self, kernel: Kernel) -> Kernel:
        memory = self._memory

        def copy(keys: Any, target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> Any:
            if not _on_host(target) or not _on_host(source):
                return kernel(keys, target, source, non_blocking)
            reason = memory.hollow(source)
            if not reason:
                self._written(target)
            if target.nbytes >= LARGE_BYTES and memory.holds(target):
                if reason:
                    self._on_copy(target, source, reason)
                    return target
                if is_dense(target) and is_dense(source) and memory.is_untouched(source):
                    memory.zero(target)
                    return target
            result = kernel(keys, target, source, non_blocking)
            if reason:
                self._on_copy(target, source, reason)
            return result

        return copy

    def _written(self, tensor: torch.Tensor) -> None:
        """All of ``tensor`` is written: if that is all of its storage, what was hollow is not any more."""
        if self._memory.hollow_blocks.value and tensor.nbytes == tensor.untyped_storage().nbytes():
            self._memory.set_hollow(tensor, 0)


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether its elements are all that lies between its first byte and its last."""
    is_strided = tensor.layout is torch.strided
    return is_strided and bool(torch.ops.aten.is_non_overlapping_and_dense(tensor))


def _on_host(value: object) -> bool:
    """Whether ``value`` is a tensor there, and no number: torch copies those too."""
    return isinstance(value, torch.Tensor) and value.device.type == "cpu"


def _is_zero(value: Any) -> bool:
    """Whether all bits of ``value`` in a tensor are zero; -0.0 has a sign."""
    number = value.item() if _on_host(value) else value
    return not isinstance(number, torch.Tensor) and number == 0 and not str(number).startswith("-")
