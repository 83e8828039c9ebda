"""What a rank's collectives give is written for them, where it is known: the other ranks are not there."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from ....tracking.roles.tensor_parts import tensors_in
from ....tracking.running_code.source import SourceFinder
from ...real.collectives import NoteCollective, Quiet, follow_collectives, note_tensors
from .broadcasts import Broadcasts
from .identical_values import identical_results, note_results
from .nccl_share import Groups
from .numbers import RankNumbers

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
        quiet: Quiet,
    ) -> None:
        """``quiet``: what a collective copies on its way is not followed, only what it gives."""
        self.groups = Groups()
        self._source = source
        self._note = note_collective
        self._numbers = numbers
        self._broadcasts = broadcasts
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
            self.groups.note_operator(group, operator, args[place + 1] if place + 1 < len(args) else None)
        note_tensors(self._note, args, frame, self._source)
        if operator in _KEEPING or not any(map(self._numbers.knows, tensors)):
            return []
        with _Aside():
            return identical_results(self._numbers, func, args, group.size())

    def _after(self, operator: str, args: Sequence[Any], known: Sequence[Any]) -> None:
        self._numbers.forget_draws()
        if operator == "broadcast_":
            with _Aside():
                self._broadcasts.tensors(dist.ProcessGroup.unbox(args[1]), args[2], args[0])
        elif operator not in _KEEPING:
            with _Aside():
                note_results(self._numbers, tensors_in(args[:1]), known)
                if operator == "alltoall_base_" and len({*args[3], *args[4]}) < 2:
                    group = dist.ProcessGroup.unbox(args[2])
                    self._numbers.exchange(args[1], args[0], group.rank(), group.size())


class _Aside:
    """A context for computations outside the run: the user's modes do not see them, no graph is kept."""

    def __enter__(self) -> None:
        self._guards: list[Any] = [torch._C.DisableTorchFunction(), torch._C._AutoDispatchBelowAutograd()]
        for guard in self._guards:
            guard.__enter__()

    def __exit__(self, *error: object) -> None:
        for guard in reversed(self._guards):
            guard.__exit__(*error)


def _is_group(one: Any) -> bool:
    return isinstance(one, torch.ScriptObject) and "ProcessGroup" in str(one._type())
