"""Copies on the host of what nobody knows on a card: hollow tensors, followed there as on the card."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch

from ....tracking.roles.tensor_parts import owns_storage, tensors_in
from ....tracking.running_code.replaced import CallDepth
from ..host.memory import Hollow, HostMemory
from .known_values import KnownValues
from .plans import Plan, plan_of
from .reads import Reads

#: Larger copies are not filled with plausible values: they would take host memory.
_MOST_READ: Final = 2**20
#: What is known of larger tensors is not written to their memory (``card_storages``).
_MOST_WRITTEN_BYTES: Final = 2**20
_COPY: Final = torch.ops.aten.copy_.default


class HostCopies:
    """Marks copies, and what is made of them; a mask is no read, until code reads it on the host."""

    def __init__(
        self, host: HostMemory, known: KnownValues, reads: Reads, saw: Callable[[Plan, Any, Any, Any], None]
    ) -> None:
        """``saw``: notes what an operator did to values, by its plan."""
        self._host = host
        self._known = known
        self._reads = reads
        self._saw = saw
        self._writing = CallDepth()
        #: makes of a function one whose copies go to a file: none is a read; what is unknown is hollow there
        self.for_files = self._writing.around

    def read_into(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """``source`` on a card was copied to ``target``: what is not known there is not known here.

        One number, or a flag, is read: code decides by it. So is what lies in memory that cannot be marked.
        """
        is_small = source.numel() <= _MOST_READ
        if self._writing.depth:
            self._copied_for_a_file(target, source)
            return
        values = self._reads.certain(source) if is_small else None
        if values is not None:
            target.copy_(values)
            return
        is_mask = torch.bool in (source.dtype, target.dtype)
        is_followed = source.dim() > 0 and self._host.holds(target)
        if is_small:
            unlisted = is_mask and is_followed
            values = self._reads.unlisted(source) if unlisted else self._reads.array(source)
            target.copy_(values)
        elif is_mask and not is_followed:
            self._reads.list_assumed(source.dtype, "what the memory it was copied to held")
        if is_followed:
            numbers = Hollow.LISTED if is_small else Hollow.NOT_COMPUTED
            self.saw(_COPY, (target, source), {}, target, Hollow.UNKNOWN if is_mask else numbers)

    def _copied_for_a_file(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """A storage is copied as bytes, whatever its type: what is known of a small one is in its memory."""
        is_known = self._known.knows(source) and not self._known.is_assumed(source)
        values = self._known.of(source) if is_known and source.numel() <= _MOST_READ else None
        if values is not None:
            target.copy_(values)
        elif not is_known or source.nbytes > _MOST_WRITTEN_BYTES:
            self._host.set_hollow(target, Hollow.NOT_COMPUTED)
        elif _is_whole(target):
            self._host.set_hollow(target, 0)

    def saw(
        self, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any], results: Any, reason: int
    ) -> None:
        """``operator`` has written ``results`` on the host, from what is hollow for ``reason``."""
        made = [one for one in tensors_in(results) if one.device.type == "cpu" and owns_storage(one)]
        for tensor in made:
            self._host.set_hollow(tensor, max(reason, 0 if _is_whole(tensor) else self._host.hollow(tensor)))
        plan = plan_of(operator)
        if plan.lesson is None:
            return
        self._saw(plan, args, kwargs, results)
        for tensor in made:
            if self._is_certain(tensor):
                self._known.forget(tensor)
                self._host.set_hollow(tensor, 0)

    def is_answered(self, tensor: torch.Tensor, reason: int) -> bool:
        """Whether a read of ``tensor``, hollow for ``reason``, is not answered with what its memory holds."""
        return reason == Hollow.UNKNOWN or self._reads.certain(tensor) is not None

    def array(self, tensor: torch.Tensor) -> None:
        """All of a hollow ``tensor`` is read: its memory holds what the report lists."""
        reason = self._host.hollow(tensor)
        with self._host.own():
            tensor.detach().copy_(self._reads.array(tensor))
        self._host.set_hollow(tensor, reason)

    def _is_certain(self, tensor: torch.Tensor) -> bool:
        """Whether what was noted of ``tensor`` is known, and all that lies in its memory."""
        if tensor.nbytes > _MOST_WRITTEN_BYTES or not _is_whole(tensor):
            return False
        return self._known.knows(tensor) and not self._known.is_assumed(tensor)


def _is_whole(tensor: torch.Tensor) -> bool:
    return tensor.nbytes == tensor.untyped_storage().nbytes()
