"""Collectives of a rank: which buffers they use, which process groups communicate, what NCCL takes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ....tracking.tracker import Tracker
from ..charges import on_cuda
from ..known_values import KnownValues
from ..on_host import tensors_in
from ..refusals import refusal
from ..supposed_values import SupposedValues
from .broadcasts import Broadcasts
from .groups import Groups, check_devices
from .identical_values import identical_result, identical_results, note_results
from .keepers import is_keepers
from .private import done_work, process_group_named, process_group_of

_c10d = torch.ops.c10d
#: The functional ``all_to_all_single``.
_EXCHANGE = "_c10d_functional::all_to_all_single"

#: After these a tensor holds what it did: nothing is written, or what one rank says, which this one would.
_KEEPING = frozenset({_c10d.broadcast_.default, _c10d.send.default, _c10d.barrier.default})


class Collectives:
    """Follows the collective operators of the running test."""

    def __init__(self, known: KnownValues, supposed: SupposedValues) -> None:
        self._known = known
        self._supposed = supposed
        self.groups = Groups()
        #: rank 0's broadcasts, if the test has ranks
        self.broadcasts: Broadcasts | None = None

    def run(self, tracker: Tracker, func: Any, name: str, args: Sequence[Any]) -> Any:
        """A collective of ``torch.distributed`` itself: all its tensors are there already.

        Raises where a real one would.
        """
        if func is _c10d.alltoall_base_.default:
            for what, tensor, splits in (("output", args[0], args[3]), ("input", args[1], args[4])):
                _check_splits(what, tensor, splits)
        self._see_group(name.partition("::")[2], args)
        kept = is_keepers(sys._getframe(1), tracker.source)
        for tensor in _given(args):
            tracker.note_collective(tensor, kept=kept)
        if func is _c10d.broadcast_.default and self.broadcasts is not None:
            self.broadcasts.tensors(process_group_of(args[1]).group_name, args[2], args[0])
        if func not in _KEEPING:
            identical = self._identical_results(func, args)
            for tensor in tensors_in(args[0]):
                self._supposed.forget(tensor)
            note_results(self._known, tensors_in(args[0]), identical)
            if func is _c10d.alltoall_base_.default and not args[3] and not args[4]:
                group = next(process_group_of(one) for one in args if isinstance(one, torch.ScriptObject))
                self._supposed.exchange(args[1], args[0], group.rank(), group.size())
        tracker.pass_through(_flattened_bytes(func, args), name)
        returns = len(func._schema.returns)
        if not returns:
            return None
        work = done_work(list(tensors_in(args[0])))
        return work if returns == 1 else (args[0], work)

    def saw(self, tracker: Tracker, name: str, args: Sequence[Any], result: Any) -> None:
        """A functional collective has run, and given new tensors: note its group and what it gave."""
        self._see_named(args)
        for tensor in tensors_in(result):
            tracker.note_collective(tensor, kept=False)
            self._known.forget(tensor)
        if isinstance(result, torch.Tensor) and (values := self._identical_result(name, args)) is not None:
            self._known.keep(result, values, assumed=True)
        if name == _EXCHANGE and len({*args[1], *args[2]}) == 1:
            group = process_group_named(args[-1])
            self._supposed.exchange(args[0], result, group.rank(), group.size())

    def _identical_results(self, func: Any, args: Sequence[Any]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        if not any(map(self._known.knows, _given(args))):
            return []
        boxed = next(one for one in args if isinstance(one, torch.ScriptObject) and _is_group(one))
        return identical_results(self._known, func, args, process_group_of(boxed).size())

    def _identical_result(self, name: str, args: Sequence[Any]) -> torch.Tensor | None:
        if not self._known.knows(args[0]):
            return None
        return identical_result(self._known, name, args, process_group_named(args[-1]).size())

    def _see_group(self, name: str, args: Sequence[Any]) -> None:
        devices = {tensor.device.type for tensor in _given(args)}
        for place, boxed in enumerate(args):
            if isinstance(boxed, torch.ScriptObject) and _is_group(boxed):
                group = process_group_of(boxed)
                check_devices(group, devices)
                if "cuda" in devices:  # else it is gloo's
                    peer = args[place + 1] if place + 1 < len(args) else None
                    self.groups.note_operator(group, name.partition(".")[0], peer)
                return

    def _see_named(self, args: Sequence[Any]) -> None:
        if args and isinstance(args[-1], (str, torch.ScriptObject)) and any(map(on_cuda, _given(args))):
            self.groups.note(process_group_named(args[-1]))


def _is_group(boxed: torch.ScriptObject) -> bool:
    return "ProcessGroup" in str(boxed._type())


def _flattened_bytes(func: Any, args: Sequence[Any]) -> list[int]:
    """What NCCL's lists of tensors are gathered to or scattered from: one tensor, while it runs.

    ``newLikeFlat`` in ``allgather`` and ``reduce_scatter`` (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp,
    2.13); tensors of unequal sizes are broadcast and reduced one by one.
    """
    if func is _c10d.allgather_.default:
        lists = args[0]
    elif func is _c10d.reduce_scatter_.default:
        lists = args[1]
    else:
        return []
    return [
        sum(tensor.numel() * tensor.itemsize for tensor in tensors)
        for tensors in lists
        if tensors and on_cuda(tensors[0]) and len({tensor.shape for tensor in tensors}) == 1
    ]


def _given(args: Sequence[Any]) -> Iterator[torch.Tensor]:
    for value in args:
        yield from tensors_in(value)


def _check_splits(what: str, tensor: torch.Tensor, splits: Sequence[int]) -> None:
    """As ``c10d::checkSplitSizes`` (torch/csrc/distributed/c10d/Utils.hpp, 2.13)."""
    if splits and sum(splits) != tensor.shape[0]:
        raise refusal(
            f"all_to_all_single: the {what} split sizes {list(splits)} do not add up to its "
            f"{tensor.shape[0]} rows. If they were read from data, such as a router's counts, they are not "
            "known on the virtual device: write sizes that follow from shapes, as of balanced experts"
        )
