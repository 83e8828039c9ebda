"""In which order a pass over a tape makes and frees its tensors: what an allocator would be asked."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from ..tape import backward, forward, incoming_names, recomputed_backward
from ..tape_backward import gradient_name
from ..tape_live import Live
from ..tape_shapes import Gradients, Operator, Tape, Tensor

#: A tensor of this name begins to exist with so many bytes; 0: it is freed.
Event: TypeAlias = tuple[str, int]


#: Here a thread's first product asks for its workspace, behind the tensor that it writes to.
PRODUCT: Event = (" product", 0)


class Script(NamedTuple):
    """One pass."""

    events: tuple[Event, ...]
    left: tuple[tuple[str, str], ...]
    """What it leaves, each name with its component."""


class _Writer(Live):
    """Writes down what is taken and dropped; ``there``: what is there before the pass begins.

    ``products``: what the first products make, behind whose first tensor :data:`PRODUCT` is written.
    """

    def __init__(self, there: Collection[str], products: Collection[str]) -> None:
        super().__init__()
        self._there = set(there)
        self._products = set(products)
        self._events: list[Event] = []
        self._before: list[Event] = []
        self._phases: list[list[Event]] = []

    def take(self, tensor: Tensor, component: str, name: str | None = None) -> None:
        """It begins to exist."""
        name = tensor.name if name is None else name
        if tensor.bytes and name not in self:
            if name in self._there:
                self._there.remove(name)
            elif self._events and self._events[-1] == (name, 0):
                self._events.pop()  # it is not freed, it becomes another component's
            else:
                self._events.append((name, tensor.bytes))
                if name in self._products:
                    self._events.append(PRODUCT)
                    self._products.clear()
        super().take(tensor, component, name)

    def drop(self, name: str) -> None:
        """It is freed, if it is there."""
        if name in self:
            self._events.append((name, 0))
        super().drop(name)

    def begin(self, operator: Operator) -> None:
        """Its expression's temporaries come before what it makes, its kernel's own behind.

        They are there until the gradients that it made are summed up, where they are.
        """
        scratch, kernel, sums = operator.backward_parts
        self._before = _named("before", scratch or (operator.backward_scratch_bytes,))
        self._events += self._before
        self._phases = [_named("kernel", kernel or (operator.backward_kernel_bytes,))]
        if operator.backward_sum_bytes:
            self._phases.append(_named("sum", sums or (operator.backward_sum_bytes,)))

    def mark(self, scratch_bytes: int = 0, kernel_bytes: int = 0, name: str = "") -> None:
        """What is there only now is made and freed."""
        super().mark(scratch_bytes, kernel_bytes, name)
        now = self._phases.pop(0) if self._phases else _named("now", (scratch_bytes, kernel_bytes))
        ending = [] if self._phases else self._before
        self._events += [*now, *((kind, 0) for kind, _ in (*now, *ending))]
        self._before = self._before if self._phases else []

    def script(self, lasting: Collection[str] = ()) -> Script:
        """What was written, without the end of what is ``lasting``."""
        events = tuple(event for event in self._events if event[1] or event[0] not in lasting)
        return Script(events, tuple((term.name, term.component) for term in self.result().end))


def _results_of(tape: Tape) -> list[str]:
    """What products make."""
    return [made.name for operator in tape.operators if operator.gives_views for made in operator.makes]


def _gradients_of(tape: Tape) -> list[str]:
    """What the backward of products makes."""
    return [
        gradient_name(name)
        for operator in tape.operators
        if operator.gives_views
        for name in (*operator.reads, *(weight.name for weight in operator.weights))
    ]


def _named(kind: str, sizes: Iterable[int]) -> list[Event]:
    return [(f" {kind} {number}", size_bytes) for number, size_bytes in enumerate(sizes) if size_bytes]


@lru_cache(maxsize=64)
def forward_script(tape: Tape, checkpoint: tuple[str, ...] | None, lasting: tuple[str, ...]) -> Script:
    """Forward over ``tape``, whose inputs are there; its outputs stay, to be the next tape's inputs.

    What is ``lasting`` is not freed by it.
    """
    writer = _Writer([tensor.name for tensor in tape.inputs], _results_of(tape))
    forward(tape, saves=checkpoint is None, kept=checkpoint or (), live=writer, hands_over=True)
    return writer.script(lasting)


@lru_cache(maxsize=64)
def held_by(tape: Tape, checkpoint: tuple[str, ...] | None) -> frozenset[str]:
    """What a forward leaves for its backward."""
    held = tape.saved() if checkpoint is None else map(tape.tensor, checkpoint)
    return frozenset(tensor.name for tensor in held)


@lru_cache(maxsize=64)
def backward_script(tape: Tape, checkpoint: tuple[str, ...] | None, gradients: Gradients) -> Script:
    """Backward over ``tape``; what forward left and the outputs' gradients are there."""
    incoming = incoming_names(tape)
    if checkpoint is None:
        writer = _Writer([*(tensor.name for tensor in tape.saved()), *incoming], _gradients_of(tape))
        backward(tape, gradients, live=writer)
    else:
        held = [tape.tensor(name).name for name in checkpoint]
        there = [*held, *(tensor.name for tensor in tape.inputs), *incoming]
        writer = _Writer(there, [*_results_of(tape), *_gradients_of(tape)])
        recomputed_backward(tape, checkpoint, gradients, live=writer)
    return writer.script()
