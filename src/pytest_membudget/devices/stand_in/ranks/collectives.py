"""What a rank's collectives give if every rank has the same values as this one: the others are not there.

Ranks run one program, so counters, flags and sizes are mostly identical. The results count as assumed, so
that a report lists reads of them.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from ....tracking.roles.tensor_parts import tensors_in
from ....tracking.running_code.source import SourceFinder
from ...real.collectives import NoteCollective, Quiet, follow_collectives, note_tensors
from .broadcasts import Broadcasts
from .nccl_share import Group, note_operator
from .numbers import RankNumbers
from .watchdog import Watchdog

_c10d = torch.ops.c10d
#: Reductions of equal numbers that give the number itself.
_SAME = frozenset({"AVG", "MIN", "MAX", "BAND", "BOR"})

#: A tensor that is written to, what it then holds, and whether that may follow from draws.
Given = tuple[torch.Tensor, torch.Tensor, bool]

#: After these a tensor holds what it did: nothing is written, or what one rank says, which this one would.
_KEEPING = frozenset({"broadcast_", "send", "barrier", "monitored_barrier_", "check_for_nan"})


class Collectives:
    """Follows the collectives of the running test."""

    def __init__(
        self,
        source: SourceFinder,
        note_collective: NoteCollective,
        numbers: RankNumbers,
        broadcasts: Broadcasts,
        watchdog: Watchdog,
        quiet: Quiet,
    ) -> None:
        """``quiet``: what a collective copies on its way is not followed, only what it gives."""
        #: the process groups that have communicated on cards, by name
        self.groups: dict[str, Group] = {}
        self._source = source
        self._note = note_collective
        self._numbers = numbers
        self._broadcasts = broadcasts
        self._watchdog = watchdog
        self._quiet = quiet
        self._followed: object = None
        #: whether there was any
        self.were_called = False

    def install(self) -> None:
        """From here on every collective of this process is seen."""
        # as long as this is referenced
        self._followed = follow_collectives(self._before, self._after, self._quiet)

    def _before(self, operator: str, func: Any, args: Sequence[Any], frame: Any) -> list[Any]:
        """Note the collective; what it will have given, where that is known."""
        self.were_called = True
        tensors = list(tensors_in(args))
        place = next(place for place, one in enumerate(args) if _is_group(one))
        group = dist.ProcessGroup.unbox(args[place])
        if any(tensor.is_cuda for tensor in tensors):
            peer = args[place + 1] if place + 1 < len(args) else None
            note_operator(self.groups, group, operator, peer)
            self._watchdog.before_collective(is_async=any(one is True for one in args))
        note_tensors(self._note, args, frame, self._source)
        if operator in _KEEPING or not any(map(self._numbers.knows, tensors)):
            return []
        with _aside():
            return _identical_results(self._numbers, func, args, group.size())

    def _after(self, operator: str, args: Sequence[Any], known: Sequence[Any]) -> None:
        self._watchdog.after_collective()
        self._numbers.forget_draws()
        if operator == "broadcast_":
            with _aside():
                self._broadcasts.tensors(dist.ProcessGroup.unbox(args[1]), args[2], args[0])
        elif operator not in _KEEPING:
            with _aside():
                _note_results(self._numbers, tensors_in(args[:1]), known)
                if operator == "alltoall_base_" and len({*args[3], *args[4]}) < 2:
                    group = dist.ProcessGroup.unbox(args[2])
                    self._numbers.exchange(args[1], args[0], group.rank(), group.size())


@contextmanager
def _aside() -> Iterator[None]:
    """For computations outside the run: the user's modes do not see them, no graph is kept."""
    with torch._C.DisableTorchFunction(), torch._C._AutoDispatchBelowAutograd():
        yield


def _is_group(one: Any) -> bool:
    return isinstance(one, torch.ScriptObject) and "ProcessGroup" in str(one._type())


def _identical_results(known: RankNumbers, func: Any, args: Sequence[Any], size: int) -> list[Given]:
    """Tensors that ``func``, a collective of ``size`` ranks, writes to, with what they hold, where known."""
    is_drawn = any(known.is_drawn(tensor) for tensor in tensors_in(args))
    return [
        (tensor, values.reshape(tensor.shape), is_drawn)
        for tensor, values in _results(known, func, args, size)
        if values is not None and values.numel() == tensor.numel()
    ]


def _results(
    known: RankNumbers, func: Any, args: Sequence[Any], size: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor | None]]:
    if func in (_c10d.allreduce_.default, _c10d.allreduce_coalesced_.default, _c10d.reduce_.default):
        for tensor in args[0]:
            yield tensor, _reduced(known, tensor, _reduction_of(args[2]), size)
    elif func is _c10d._allgather_base_.default:
        yield args[0], _gathered(known, args[1], size)
    elif func is _c10d.allgather_into_tensor_coalesced_.default:
        for output, tensor in zip(args[0], args[1], strict=True):
            yield output, _gathered(known, tensor, size)
    elif func is _c10d.allgather_.default:
        for outputs, tensor in zip(args[0], args[1], strict=True):
            for output in outputs:
                yield output, _reduced(known, tensor, "AVG", size)


def _note_results(known: RankNumbers, written: Iterable[torch.Tensor], identical: Sequence[Given]) -> None:
    """A collective has written to the tensors ``written``, of which those of ``identical`` are known."""
    given = {id(tensor) for tensor, *_ in identical}
    for tensor in written:
        if id(tensor) not in given:
            known.forget(tensor)
    for tensor, values, is_drawn in identical:
        known.overwrite(tensor, values, assumed=True)
        if not is_drawn:
            known.note_of_all_ranks(tensor)


def _reduction_of(boxed: Any) -> str:
    """The name of the reduction in a collective operator's argument: ``SUM``, ``MAX``."""
    kinds: Any = dist.ReduceOp.RedOpType
    return str(kinds(boxed.op()).name)


def _gathered(known: RankNumbers, tensor: torch.Tensor, size: int) -> torch.Tensor | None:
    """``tensor`` of each of ``size`` ranks, one behind the other."""
    if tensor.numel() * size > known.most_elements(tensor.dtype):
        return None
    values = known.of(tensor)
    return None if values is None else torch.cat([values] * size)


def _reduced(known: RankNumbers, tensor: torch.Tensor, reduction: str, size: int) -> torch.Tensor | None:
    """``tensor``, the same on ``size`` ranks, reduced; None where it or the reduction is not known."""
    values = known.of(tensor) if tensor.numel() <= known.most_elements(tensor.dtype) else None
    if values is None:
        return None
    if reduction in _SAME:
        return values.clone()
    if reduction == "SUM":
        return (values * size).to(values.dtype)
    if reduction == "PRODUCT":
        return (values**size).to(values.dtype)
    return None
