"""Reads of hollow host tensors: what their memory holds is given, zero as a rule; each place is listed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CodeType
from typing import Any, Final

import torch

from ....tracking.source import SourceFinder, shown_path
from .memory import HostMemory

#: Operators that hand what a tensor holds to the code that asks, or decide by it.
READS: Final = (
    "_local_scalar_dense", "equal", "is_nonzero", "masked_select", "nonzero", "nonzero_static", "_unique",
    "_unique2", "unique_consecutive", "unique_dim", "unique_dim_consecutive",
)  # fmt: skip
_USED: Final = "; what its memory holds is used"
#: Methods that read without an operator.
_METHODS: Final = ("numpy", "tolist", "__array__")
#: Frames from a read to the code that asked for it.
_DEPTH: Final = 3


class HostReads:
    """The places at which hollow host tensors were read."""

    def __init__(self, memory: HostMemory, source: SourceFinder) -> None:
        self._memory = memory
        self._source = source
        self._places: dict[tuple[CodeType | None, int, str], None] = {}

    def install(self) -> None:
        """Follow the methods that no operator stands behind."""
        kind: Any = torch.Tensor
        for name in _METHODS:
            setattr(kind, name, self._following(getattr(kind, name)))

    def note(self, tensor: torch.Tensor) -> None:
        """``tensor`` is read: the place is kept if it is hollow."""
        if tensor.device.type == "cpu" and self._memory.is_hollow(tensor):
            code, line = self._source.find(_DEPTH)
            self._places[code, line, str(tensor.dtype).removeprefix("torch.")] = None

    def texts(self, root: str) -> list[str]:
        """For the report, each with its line."""
        lines = []
        for code, line, dtype in self._places:
            where = f"{shown_path(code.co_filename, root)}:{line}" if code is not None else "torch"
            lines.append(f"{where} reads {dtype} values of a host tensor that were not computed{_USED}")
        return lines

    def _following(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def read(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if self._memory.hollow_blocks.value and tensor.layout is torch.strided:
                self.note(tensor)
            return method(tensor, *args, **kwargs)

        return read
