"""Sees the collectives of a rank as PyTorch runs them, and notes which tensors they use.

Each operator of ``c10d`` runs as it is, in C++; around it stands a function of ours. It is registered for the
device's own key, so that it is called from C++ too: by the reducer of DistributedDataParallel, and for
functional collectives.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ...tracking.source import SourceFinder
from ..fake.cluster.keepers import is_keepers

#: Devices whose tensors the process groups of a rank serve.
_KEYS = ("CUDA", "CPU")

#: Told of a collective's tensors, and whether code keeps them for its collectives alone.
NoteCollective = Callable[..., object]
#: Called before a collective with its name, its operator, its arguments and the frame that has called it.
Before = Callable[[str, Any, Sequence[Any], FrameType | None], Any]
#: Called after it with its name, its arguments and what ``Before`` has returned.
After = Callable[[str, Sequence[Any], Any], object]


class CollectiveCalls:
    """Once installed, and while it is kept, calls ``before`` and ``after`` around every collective."""

    def __init__(self, before: Before, after: After = lambda operator, args, known: None) -> None:
        self._around = before, after
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
        func = getattr(torch.ops.c10d, operator).default
        before, after = self._around

        def run(keys: Any, *args: Any) -> Any:
            known = before(operator, func, args, sys._getframe().f_back)
            result = original.call_boxed(keys, *args)
            after(operator, args, known)
            return result

        self._library.impl(operator, run, key, with_keyset=True)


def note_tensors(
    note: NoteCollective, args: Sequence[Any], frame: FrameType | None, source: SourceFinder
) -> None:
    """Tell ``note`` of the card's tensors that the collective which ``frame`` calls uses."""
    kept = is_keepers(frame, source)
    for tensor in tensors_in(args):
        if tensor.is_cuda:
            note(tensor, kept=kept)


def tensors_in(args: Sequence[Any]) -> Iterator[torch.Tensor]:
    """The tensors among a collective's arguments."""
    return (one for one in tree_leaves(list(args)) if isinstance(one, torch.Tensor))
