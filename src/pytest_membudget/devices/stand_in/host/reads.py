"""Reads of hollow host tensors; each place is listed.

What was not computed is answered with what its memory holds, zero as a rule; copies of unknown masks, and
what is made of them, as on the card.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.nn.utils import rnn

from ....caveats import HOST_READ, HOST_SIZE_READ, SIZE_READ, Caveat
from ....tracking.running_code.source import Place, SourceFinder
from ..values.following import Following
from ..values.reads import kind_of_read
from .memory import Hollow
from .shapes import host_tensors

#: Operators that hand what a tensor holds to the code that asks.
READS: Final = ("_local_scalar_dense", "allclose", "equal")
_ITEM: Final = torch.ops.aten._local_scalar_dense.default
_USED: Final = "; what its memory holds is used"
#: Methods that read without an operator.
_METHODS: Final = ("numpy", "tolist", "__array__")
#: Methods that give the values to other code: other libraries, other processes.
_GIVE_AWAY: Final = ("__dlpack__", "share_memory_")
#: Frames from a read to the code that asked for it.
_DEPTH: Final = 3


class HostReads:
    """The places at which hollow host tensors were read."""

    def __init__(self, following: Following, source: SourceFinder) -> None:
        self._following = following
        self._memory = following.host
        self._source = source
        self._turn = threading.local()
        self._places: dict[tuple[Place, str], None] = {}

    def install(self) -> None:
        """Follow the methods that call no operator."""
        kind: Any = torch.Tensor
        for name in _METHODS:
            setattr(kind, name, self._around(getattr(kind, name)))
        for name in _GIVE_AWAY:
            setattr(kind, name, self._giving_away(getattr(kind, name)))
        # their C++ reads the tensor that says where to split, or how long sequences are
        for owner, name in ((torch, "tensor_split"), (kind, "tensor_split"), (rnn, "pack_padded_sequence")):
            setattr(owner, name, self._reading_all_but_first(getattr(owner, name)))

    def quiet(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function``, in which nothing is hollow: what it computes decides nothing."""

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            self._turn.quiet = getattr(self._turn, "quiet", 0) + 1
            try:
                return function(*args, **kwargs)
            finally:
                self._turn.quiet -= 1

        return run

    def hollow(self, tensor: torch.Tensor) -> int:
        """Why the values of ``tensor`` are not to be trusted (``Hollow``); 0 if they are, or it is quiet."""
        return 0 if getattr(self._turn, "quiet", 0) else self._memory.hollow(tensor)

    def answer(self, operator: Any, args: Any, kwargs: Any, reason: int, compute: Callable[[], Any]) -> Any:
        """What ``operator``, one of ``READS``, gives on tensors that are hollow for ``reason``."""
        copies = self._following.copies
        is_item = operator is _ITEM
        if copies.is_answered(args[0], reason) if is_item else reason != Hollow.NOT_COMPUTED:
            return self._following.answer(operator, args, kwargs)
        for tensor in host_tensors((args, kwargs)):
            self._note(tensor)
        return compute()

    def _giving_away(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def give(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            is_strided = tensor.is_cpu and tensor.layout is torch.strided
            if is_strided and self.hollow(tensor) == Hollow.UNKNOWN:
                self._read(tensor)
            return method(tensor, *args, **kwargs)

        return give

    def _reading_all_but_first(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def read(*args: Any, **kwargs: Any) -> Any:
            if self._memory.hollow_blocks.value:
                for tensor in host_tensors((args[1:], kwargs)):
                    self._read(tensor)
            return function(*args, **kwargs)

        return read

    def _read(self, tensor: torch.Tensor) -> None:
        """All of ``tensor`` is read where it lies."""
        reason = self.hollow(tensor)
        if reason and self._following.copies.is_answered(tensor, reason):
            self._following.copies.array(tensor)
        else:
            self._note(tensor)

    def _note(self, tensor: torch.Tensor) -> None:
        """``tensor`` is read: the place is kept if it was not computed."""
        if self.hollow(tensor) == Hollow.NOT_COMPUTED:
            self._places[self._source.place(_DEPTH), str(tensor.dtype).removeprefix("torch.")] = None

    def caveats(self, root: str) -> list[Caveat]:
        """For the report, each with its line."""
        found = []
        for place, dtype in self._places:
            text = f"{place.shown(root)} reads {dtype} values of a host tensor that were not computed{_USED}"
            is_size = kind_of_read(getattr(torch, dtype)) is SIZE_READ
            found.append(Caveat(HOST_SIZE_READ if is_size else HOST_READ, text))
        return found

    def _around(self, method: Callable[..., Any]) -> Callable[..., Any]:
        can_copy = method.__name__ == "tolist"

        @functools.wraps(method)
        def read(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if tensor.is_cuda and tensor.dtype is torch.bool and (can_copy or kwargs.get("force")):
                tensor = tensor.cpu()  # a copy alone is no read
            if self._memory.hollow_blocks.value and tensor.is_cpu and tensor.layout is torch.strided:
                self._read(tensor)
            return method(tensor, *args, **kwargs)

        return read
