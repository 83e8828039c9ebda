"""CollectiveCalls: calls functions before and after each collective of a rank, with its tensors.

Each operator of ``c10d`` runs unchanged, in C++, called by a function of this module. That is registered for
the device's dispatch key, so that C++ calls it too: DistributedDataParallel, functional collectives.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import torch

from ...tracking.running_code.source import SourceFinder
from ..fake.cluster.keepers import is_keepers
from ..fake.on_host import tensors_in

#: Devices whose tensors the process groups of a rank serve.
_KEYS = ("CUDA", "CPU")

#: Called with a collective's tensors, and whether they are buffers kept for collectives.
NoteCollective = Callable[..., object]
#: Called before a collective with its name, its operator, its arguments and the frame that has called it.
Before = Callable[[str, Any, Sequence[Any], FrameType | None], Any]
#: Called after it with its name, its arguments and the result of ``Before``.
After = Callable[[str, Sequence[Any], Any], object]


class CollectiveCalls:
    """Calls ``before`` and ``after`` each collective, from ``install`` on and as long as it is referenced."""

    def __init__(self, before: Before, after: After = lambda operator, args, known: None) -> None:
        self._around = before, after
        self._library: Any = None

    def install(self) -> None:
        """Start, for all collectives of this process."""
        self._library = torch.library.Library("c10d", "IMPL")
        names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("c10d::")]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns that a kernel is replaced
            for name in names:
                for key in _KEYS:
                    if torch._C._dispatch_has_kernel_for_dispatch_key(name, key):
                        self._wrap(name, key)

    def _wrap(self, name: str, key: str) -> None:
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
    """Call ``note`` with the CUDA tensors of the collective that ``frame`` calls."""
    kept = is_keepers(frame, source)
    for tensor in tensors_in(args):
        if tensor.is_cuda:
            note(tensor, kept=kept)
