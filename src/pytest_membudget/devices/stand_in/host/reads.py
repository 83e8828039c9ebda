"""Reads of hollow host tensors; each place is listed.

What was not computed is answered as on the card, and copies of unknown masks, and what is made of them; but
of large tensors that are read as a whole what their memory holds is used, zero as a rule.
"""

import functools
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.nn.utils import rnn

from ....caveats import HOST_READ, Caveat
from ....tracking.roles.tensor_parts import dtype_name
from ....tracking.running_code.replaced import CallDepth
from ....tracking.running_code.source import Place, SourceFinder
from ..values.following import Following
from .memory import Hollow
from .shapes import host_tensors

#: Operators that hand what a tensor holds to the code that asks.
READS: Final = ("_local_scalar_dense", "allclose", "equal")
_ITEM: Final = torch.ops.aten._local_scalar_dense.default
#: Methods that read without an operator.
_METHODS: Final = ("numpy", "tolist", "__array__")
#: Methods that give the values to other code: other libraries, other processes.
_GIVE_AWAY: Final = ("__dlpack__", "share_memory_")
#: Larger ones that were not computed are not written to where all of them is read.
_MOST_WRITTEN_BYTES: Final = 2**24
#: Frames from a read to the code that asked for it.
_DEPTH: Final = 3


class HostReads:
    """The places at which hollow host tensors were read."""

    def __init__(self, following: Following, source: SourceFinder) -> None:
        self._following = following
        self._memory = following.host
        self._source = source
        #: nothing is hollow where tensors are printed: what that computes decides nothing
        self._printing = CallDepth()
        self._places: dict[tuple[Place, str], None] = {}

    def install(self) -> None:
        """Follow the methods that call no operator."""
        printing: Any = torch._tensor_str
        printing._str = self._printing.around(printing._str)
        kind: Any = torch.Tensor
        for name in _METHODS:
            setattr(kind, name, self._around(getattr(kind, name)))
        for name in _GIVE_AWAY:
            setattr(kind, name, self._giving_away(getattr(kind, name)))
        # their C++ reads the tensor that says where to split, or how long sequences are
        for owner, name in ((torch, "tensor_split"), (kind, "tensor_split"), (rnn, "pack_padded_sequence")):
            setattr(owner, name, self._reading_all_but_first(getattr(owner, name)))

    def hollow(self, tensor: torch.Tensor) -> int:
        """Why the values of ``tensor`` are not to be trusted (``Hollow``); 0 if they are, or are printed."""
        return 0 if self._printing.depth else self._memory.hollow(tensor)

    def answer(self, operator: Any, args: Any, kwargs: Any, reason: int, compute: Callable[[], Any]) -> Any:
        """What ``operator``, one of ``READS``, gives on tensors that are hollow for ``reason``."""
        is_listed = operator is _ITEM and reason == Hollow.LISTED
        if is_listed and not self._following.copies.is_answered(args[0], reason):
            return compute()
        return self._following.answer(operator, args, kwargs)

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
        reason, copies = self.hollow(tensor), self._following.copies
        is_written = reason == Hollow.NOT_COMPUTED and tensor.nbytes <= _MOST_WRITTEN_BYTES
        if reason and (is_written or copies.is_answered(tensor, reason)):
            copies.array(tensor)
        elif reason == Hollow.NOT_COMPUTED:
            self._places[self._source.place(_DEPTH), dtype_name(tensor.dtype)] = None

    def caveats(self, root: str) -> list[Caveat]:
        """For the report, each with its line."""
        what = "values of a host tensor that were not computed; what its memory holds is used"
        return [
            Caveat(HOST_READ, f"{place.shown(root)} reads {dtype} {what}") for place, dtype in self._places
        ]

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
