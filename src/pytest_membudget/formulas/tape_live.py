"""What is alive while a tape runs, and what was alive at the highest moment."""

from __future__ import annotations

from dataclasses import dataclass

from ..components import TEMPORARIES, WORKSPACES
from .tape_shapes import Operator, Tensor
from .terms import Term


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass over a tape takes, with what is there when it begins."""

    peak: tuple[Term, ...]
    """What is there at the highest moment, piece by piece."""
    end: tuple[Term, ...]
    """What it leaves."""

    @property
    def peak_bytes(self) -> int:
        """At the highest moment."""
        return sum(term.bytes for term in self.peak)


class Live:
    """What is alive, and what was alive at the highest moment."""

    def __init__(self) -> None:
        self._held: dict[str, Term] = {}
        self._total = 0
        self._peak_total = -1
        self._peak: tuple[Term, ...] = ()

    def __contains__(self, name: str) -> bool:
        return name in self._held

    def take(self, tensor: Tensor, component: str, name: str | None = None) -> None:
        """It begins to exist."""
        name = tensor.name if name is None else name
        if tensor.bytes and name not in self._held:  # a second reader of what is there already
            self._held[name] = Term(component, name, tensor.bytes, tensor.formula)
            self._total += tensor.bytes

    def drop(self, name: str) -> None:
        """It is freed, if it is there."""
        term = self._held.pop(name, None)
        if term is not None:
            self._total -= term.bytes

    def begin(self, operator: Operator) -> None:
        """Its backward begins: what it makes in addition to its results is made before them."""

    def mark(self, scratch_bytes: int = 0, kernel_bytes: int = 0, name: str = "") -> None:
        """See whether this is the highest moment so far, with what is there only now."""
        total = self._total + scratch_bytes + kernel_bytes
        if total > self._peak_total:
            self._peak_total = total
            more = ((TEMPORARIES, scratch_bytes), (WORKSPACES, kernel_bytes))
            only_now = (Term(component, name, size) for component, size in more if size)
            self._peak = (*self._held.values(), *only_now)

    def result(self) -> Pass:
        """The highest moment, and what is left."""
        return Pass(self._peak, tuple(self._held.values()))
