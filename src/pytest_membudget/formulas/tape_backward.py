"""A tape's backward: which gradients are made, added up and freed, operator by operator.

The engine's order and its rules for sums: torch/csrc/autograd/{engine,input_buffer}.cpp, torch 2.13.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from ..components import GRADIENTS, TEMPORARIES
from .tape_live import Live
from .tape_shapes import Gradients, Operator, Tape, Tensor


class Backward:
    """One pass backward: which gradients are there, and who reads each still."""

    def __init__(
        self, tape: Tape, live: Live, gradients: Gradients, *, is_checkpointed: bool = False
    ) -> None:
        self._tape = tape
        self._is_checkpointed = is_checkpointed
        self._live = live
        self._gradients = gradients
        self._uses = Counter(name for operator in tape.operators for name in saves_of(tape, operator))
        self._grads: dict[str, str] = {}
        self._readers = Counter[str]()
        self._views: set[str] = set()

    def run(self) -> None:
        """From the outputs' gradients, which are there, to those of inputs and weights."""
        for name in self._tape.outputs:
            self._hold(name, gradient_name(name))
        self._live.mark()
        for operator in reversed(self._tape.operators):
            incoming = [tensor.name for tensor in operator.makes if tensor.name in self._grads]
            sources = [self._grads.pop(name) for name in incoming]
            fresh = self._made(operator, sources) if sources else []
            if not sources or not (self._is_checkpointed or operator.gives_kept):
                self._release(operator)
            self._end_weights(operator)
            for name, key in fresh:
                self._add_up(self._tape.named(name), key)
            self._drop_unread([*sources, *(key for _, key in fresh)])

    def _made(self, operator: Operator, sources: list[str]) -> list[tuple[str, str]]:
        """Gradients of what ``operator`` reads, from those of what it made."""
        live = self._live
        if operator.gives_kept:
            self._release(operator)
        live.begin(operator)
        fresh = self._taken(operator, sources)
        name = f"{operator.name} backward"
        live.mark(operator.backward_scratch_bytes, operator.backward_kernel_bytes, name)
        # what was recomputed is dropped as soon as it is unpacked and used
        if self._is_checkpointed and not operator.gives_kept:
            self._release(operator)
        if operator.backward_sum_bytes:
            live.mark(operator.backward_scratch_bytes, operator.backward_sum_bytes, name)
        for key in sources:
            self._readers[key] -= 1
        handed = {key for _, key in fresh}
        self._drop_unread([key for key in sources if key not in handed])
        return fresh

    def _taken(self, operator: Operator, sources: list[str]) -> list[tuple[str, str]]:
        """The gradients begin to exist, those of weights too; which are there of what it reads."""
        live = self._live
        if operator.weights_first:
            self._take_weights(operator)
        fresh: list[tuple[str, str]] = []
        reads = dict.fromkeys(operator.reads)
        for name in reversed(reads) if operator.weights_first else reads:
            if not self._tape.tensor(name).needs_grad:
                continue
            key = sources[0] if operator.hands_on else _fresh_key(name, operator, live)
            if not operator.hands_on:
                live.take(self._tape.named(name), TEMPORARIES, key)
            if operator.gives_views:
                self._views.add(key)
            fresh.append((name, key))
        if operator.hands_on and operator.weights and not operator.reads:
            live.drop(sources[0])  # it becomes the weight's
        if operator.weights and not operator.weights_first:
            self._take_weights(operator)
        return fresh

    def _take_weights(self, operator: Operator) -> None:
        for weight in operator.weights:
            is_kept = self._gradients == "kept" and weight.joins is None
            self._live.take(weight, GRADIENTS if is_kept else TEMPORARIES, gradient_name(weight.name))

    def _release(self, operator: Operator) -> None:
        """What it saved goes before the gradients that it made are added to others."""
        for name in saves_of(self._tape, operator):
            self._uses[name] -= 1
            if not self._uses[name]:
                self._live.drop(name)

    def _end_weights(self, operator: Operator) -> None:
        """The weights' gradients, made a moment ago, stay or go."""
        for weight in operator.weights:
            if self._gradients == "freed" and weight.joins != "waits":
                self._live.mark(weight.update_bytes, name=f"update of {weight.name}")
            self._live.drop(gradient_name(weight.name))
            if weight.joins == "waits" or (self._gradients == "kept" and weight.joins is None):
                self._live.take(weight, GRADIENTS, gradient_name(weight.name))

    def _add_up(self, tensor: Tensor, key: str) -> None:
        """A gradient meets the one that is there, if there is one: in place where that is unshared."""
        name = tensor.name
        other = self._grads.get(name)
        if other is None:
            self._hold(name, key)
        elif self._can_take_sum(other):
            pass
        elif not self._readers[key] and key not in self._views:
            self._readers[other] -= 1
            self._hold(name, key)
            self._drop_unread([other])
        else:
            total = f"{gradient_name(name)} summed"
            self._live.take(tensor, TEMPORARIES, total)
            self._live.mark()
            self._readers[other] -= 1
            self._hold(name, total)
            self._drop_unread([other, key])

    def _can_take_sum(self, key: str) -> bool:
        return self._readers[key] == 1 and key not in self._views

    def _hold(self, name: str, key: str) -> None:
        self._grads[name] = key
        self._readers[key] += 1

    def _drop_unread(self, keys: Iterable[str]) -> None:
        for key in keys:
            if not self._readers[key]:
                self._live.drop(key)


def _fresh_key(name: str, operator: Operator, live: Live) -> str:
    key = gradient_name(name)
    return f"{key} of {operator.name}" if key in live else key


def saves_of(tape: Tape, operator: Operator) -> Iterator[str]:
    """The storages that ``operator`` holds for its backward, each once."""
    yield from dict.fromkeys(tape.tensor(name).name for name in operator.saves)
    yield from (tensor.name for tensor in operator.keeps)


def gradient_name(name: str) -> str:
    """What the gradient of the tensor ``name`` is called."""
    return f"{name}.grad"
