"""What a run did that is not modelled: which operators hid memory, how often, where, and how much at most."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch

from ...caveats import OPERATOR, Caveat
from ...hardware.gpus import Gpu
from ...tracking.running_code.source import shown_path
from ...units import gib_text
from .kernel_bounds import BOUNDS, Unmodelled, none_known
from .kernel_layouts import Args
from .kernel_temporaries import EXTENSION_RULES

#: Namespaces of operators whose kernels are PyTorch's own: the table of hidden bytes speaks for them.
_OWN: Final = frozenset({
    "aten", "prim", "prims", "inductor", "c10d", "c10d_functional", "_c10d_functional",
    "_c10d_functional_autograd", "_dtensor", "fsdp", "symm_mem", "quantized", "profiler", "rngprims",
    "debugprims", "streams", "higher_order",
})  # fmt: skip


_EXTENSION: Final = Unmodelled("what an extension's kernel allocates inside is not seen", none_known)


def unmodelled_of(operator: Any) -> Unmodelled | None:
    """What of ``operator``'s own memory is not counted; None where nothing is known to be missing."""
    known = BOUNDS.get(operator)
    if known is not None or not isinstance(operator, torch._ops.OpOverload):
        return known
    return None if is_own(operator) or operator.name() in EXTENSION_RULES else _EXTENSION


def is_own(operator: torch._ops.OpOverload) -> bool:
    """Whether ``operator`` is PyTorch's, and not an extension's."""
    return operator.namespace in _OWN


@dataclass(slots=True)
class _Tally:
    """The calls of one operator that hid something."""

    reason: str
    calls: int = 0
    most_bytes: int = 0
    is_bounded: bool = True
    file: str | None = None
    line: int = 0


class UnmodelledRuns:
    """Keeps what ran and hid memory, for one test."""

    def __init__(self) -> None:
        self._tallies: dict[str, _Tally] = {}
        self._elsewhere: dict[str, None] = {}

    def saw(
        self,
        name: str,
        hidden: Unmodelled,
        call: tuple[Args, Mapping[str, Any], Any, Gpu],
        place: Callable[[], tuple[str | None, int]],
    ) -> None:
        """The operator ``name`` ran with ``call``'s arguments, result and card; ``place`` says where."""
        if call[-1].backend != "cuda":
            self.saw_elsewhere(name)
            return
        bound = hidden.bound(*call)
        if bound == 0:
            return
        operator = name.partition(".")[0]
        tally = self._tallies.setdefault(operator, _Tally(hidden.reason))
        tally.calls += 1
        tally.is_bounded = tally.is_bounded and bound is not None
        if tally.calls == 1 or (bound or 0) > tally.most_bytes:
            tally.most_bytes = bound or 0
            tally.file, tally.line = place()

    def saw_elsewhere(self, name: str) -> None:
        """An operator whose kernel allocates ran on a card that the table of hidden bytes says nothing of."""
        self._elsewhere[name.partition(".")[0]] = None

    def caveats(self, root: str) -> list[Caveat]:
        """One for each operator, in the order of their first calls; paths are relative to ``root``."""
        found = [
            Caveat(OPERATOR, _sentence(operator, tally, root), tally.most_bytes if tally.is_bounded else None)
            for operator, tally in self._tallies.items()
        ]
        if self._elsewhere:
            names = ", ".join(self._elsewhere)
            text = f"ROCm: what its kernels take for themselves is not known and not counted ({names})"
            found.append(Caveat(OPERATOR, text))
        return found


def _sentence(operator: str, tally: _Tally, root: str) -> str:
    place = f"{shown_path(tally.file, root)}:{tally.line}" if tally.file else "in torch"
    if tally.calls == 1:
        calls = f"once ({place})"
    else:
        which = "largest at" if tally.is_bounded else "first at"
        calls = f"{tally.calls} times ({which} {place})"
    bound = f"at most {gib_text(tally.most_bytes)}" if tally.is_bounded else "no bound is known"
    return f"{operator}, {calls}: {tally.reason}, {bound}"
