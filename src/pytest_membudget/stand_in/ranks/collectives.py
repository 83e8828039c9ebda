"""Sees the collectives of a rank as PyTorch runs them, and writes what is known of what they give.

Each operator of ``c10d`` runs as it is, in C++, through ProcessGroupNCCL; around it stands a function of
ours. It is registered for the device's own key, so that it is called from C++ too: by the reducer of
DistributedDataParallel, and for functional collectives.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ...tracking.source import SourceFinder
from ...virtual.cluster.alike_values import alike_results
from ...virtual.cluster.broadcasts import Broadcasts
from ...virtual.cluster.groups import Groups
from ...virtual.cluster.keepers import is_keepers
from ...virtual.cluster.private import process_group_of
from .memory_numbers import RankNumbers

_c10d = torch.ops.c10d
#: Devices whose tensors the process groups of a rank serve.
_KEYS = ("CUDA", "CPU")
#: After these a tensor holds what it did: nothing is written, or what one rank says, which this one would.
_KEEPING = frozenset({"broadcast_", "send", "barrier", "monitored_barrier_", "check_for_nan"})

#: Told of a collective's tensors, and whether code keeps them for its collectives alone.
NoteCollective = Callable[..., object]


class Collectives:
    """Follows the collectives of the running test."""

    def __init__(
        self,
        source: SourceFinder,
        note_collective: NoteCollective,
        numbers: RankNumbers,
        broadcasts: Broadcasts,
    ) -> None:
        self.groups = Groups()
        self._source = source
        self._note = note_collective
        self._numbers = numbers
        self._broadcasts = broadcasts
        self._library: Any = None

    def install(self) -> None:
        """From here on every collective of this process is seen."""
        self._library = torch.library.Library("c10d", "IMPL")
        names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("c10d::")]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch tells that a kernel is replaced
            for name in names:
                for key in _KEYS:
                    if torch._C._dispatch_has_kernel_for_dispatch_key(name, key):
                        self._stand_around(name, key)

    def _stand_around(self, name: str, key: str) -> None:
        original: Any = torch.library.get_kernel(name, key)
        operator = name.removeprefix("c10d::")
        func = getattr(_c10d, operator).default

        def run(keys: Any, *args: Any) -> Any:
            known = self._before(operator, func, args, sys._getframe().f_back)
            result = original.call_boxed(keys, *args)
            self._after(operator, args, known)
            return result

        self._library.impl(operator, run, key, with_keyset=True)

    def _before(self, operator: str, func: Any, args: Sequence[Any], frame: Any) -> list[Any]:
        """Note the collective; what it will have given, where that is known."""
        tensors = list(_tensors_in(args))
        place = next(place for place, one in enumerate(args) if _is_group(one))
        group = process_group_of(args[place])
        if any(tensor.is_cuda for tensor in tensors):
            self.groups.note_operator(group, operator, args[place + 1] if place + 1 < len(args) else None)
        kept = is_keepers(frame, self._source)
        for tensor in tensors:
            if tensor.is_cuda:
                self._note(tensor, kept=kept)
        if operator in _KEEPING or not any(map(self._numbers.knows, tensors)):
            return []
        with _Aside():
            return alike_results(self._numbers, func, args, group.size())

    def _after(self, operator: str, args: Sequence[Any], known: Sequence[Any]) -> None:
        if operator == "broadcast_":
            with _Aside():
                self._broadcasts.tensors(process_group_of(args[1]).group_name, args[2], args[0])
        elif operator not in _KEEPING:
            for tensor in _tensors_in(args[:1]):
                self._numbers.forget(tensor)
            with _Aside():
                for tensor, values in known:
                    self._numbers.keep(tensor, values, assumed=True)
                if operator == "alltoall_base_" and len({*args[3], *args[4]}) < 2:
                    group = process_group_of(args[2])
                    self._numbers.exchange(args[1], args[0], group.rank(), group.size())


class _Aside:
    """Around what is worked out beside the run: no mode of the user's sees it, and no graph is kept."""

    def __enter__(self) -> None:
        self._guards: list[Any] = [torch._C.DisableTorchFunction(), torch._C._AutoDispatchBelowAutograd()]
        for guard in self._guards:
            guard.__enter__()

    def __exit__(self, *error: object) -> None:
        for guard in reversed(self._guards):
            guard.__exit__(*error)


def _tensors_in(args: Sequence[Any]) -> Iterator[torch.Tensor]:
    return (one for one in tree_leaves(list(args)) if isinstance(one, torch.Tensor))


def _is_group(one: Any) -> bool:
    return isinstance(one, torch.ScriptObject) and "ProcessGroup" in str(one._type())
