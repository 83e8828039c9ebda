"""A block of a model as a list of operators, and what autograd makes of it: saved, working, freed.

A tape says what one layer (or a loss head) does, operator by operator, with tensors that have names, bytes
and formulas. From it follow, by the rules of PyTorch's autograd, what its forward leaves for backward, how
much more it takes meanwhile, and the same of its backward. Nothing is run; a layer's tape is some thirty
operators long, and all alike layers share it.

Rules (torch/csrc/autograd of 2.13):

- what an operator saves stays until its backward; what it does not dies after its last reader;
- backward runs in the opposite order; it makes a gradient for each input that needs one, hands the incoming
  gradient on where the operator is an addition or a view, and adds up in place where two gradients meet;
- the gradient of a weight is made by the backward of the operator that uses it.

Passes are told so that they can be put one after the other: a forward begins with the tape's inputs there
and ends with what is saved (its outputs are the next tape's inputs); a backward begins with what is
saved and the outputs' gradients, and ends with the inputs' gradients and those of weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from ..components import ACTIVATIONS, GRADIENTS, TEMPORARIES, WORKSPACES
from .terms import Term, by_component

#: What becomes of a weight's gradient: it stays (and is the first), it is added to one that is there, or
#: an optimizer uses and frees it at once.
Gradients = Literal["kept", "added", "freed"]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a tape, as one rank has it."""

    name: str
    bytes: int
    formula: str = ""
    """How the bytes come about, as ``b*s*h*2``."""
    view_of: str | None = None
    """It shares that tensor's storage; its bytes are its gradient's."""
    needs_grad: bool = True
    held_to: str | None = None
    """The operator until which a local variable holds it, read or not."""
    component: str = ACTIVATIONS
    """What it is when it is saved."""
    update_bytes: int = 0
    """Of a weight's gradient: what an optimizer takes beside it that uses it at once."""
    joins: Literal["waits", "ends"] | None = None
    """Of the gradient of a weight that two blocks use (a tied head): that of the later block waits in any
    case, that of the earlier one is added to it and goes."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One step of a block."""

    name: str
    reads: tuple[str, ...]
    """Tensors; each that needs a gradient gets one in backward."""
    makes: tuple[Tensor, ...] = ()
    saves: tuple[str, ...] = ()
    """Of what it reads or makes, what its backward needs."""
    keeps: tuple[Tensor, ...] = ()
    """Made for its own backward alone: statistics, masks, cast weights."""
    weights: tuple[Tensor, ...] = ()
    """The gradients of weights that its backward makes."""
    hands_on: bool = False
    """Its backward passes the gradient on as it is: additions, views; where it reads nothing, as that of its
    weight: one that several operators use."""
    gives_kept: bool = False
    """Its backward hands out as gradients what its forward has made and kept (fused losses)."""
    gives_views: bool = False
    """The gradients it makes come through a view (a linear layer's, over more than two dimensions): one that
    is there already does not take the sum with another, a new tensor does (``can_accumulate_inplace`` in
    torch/csrc/autograd/input_buffer.cpp)."""
    forward_scratch_bytes: int = 0
    """There while it runs forward, beside what it makes."""
    backward_scratch_bytes: int = 0
    forward_kernel_bytes: int = 0
    """What its kernel takes for itself and gives back before it returns."""
    backward_kernel_bytes: int = 0
    backward_sum_bytes: int = 0
    """The same of summing a gradient up to its smaller shape, which the engine does when the operator's
    backward is over (``validate_outputs`` in torch/csrc/autograd/engine.cpp)."""


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

    def end_by_component(self) -> dict[str, int]:
        """The bytes that it leaves, by component."""
        return by_component(self.end)


class Tape:
    """The operators of one block, in forward order."""

    def __init__(
        self, inputs: tuple[Tensor, ...], operators: tuple[Operator, ...], outputs: tuple[str, ...]
    ) -> None:
        self.inputs = inputs
        self.operators = operators
        self.outputs = outputs
        self._tensors = {tensor.name: tensor for tensor in inputs}
        for operator in operators:
            for tensor in (*operator.makes, *operator.keeps):
                if tensor.name in self._tensors:
                    raise ValueError(f"two tensors of a tape are named {tensor.name!r}")
                self._tensors[tensor.name] = tensor

    def tensor(self, name: str) -> Tensor:
        """The tensor whose storage ``name`` is: its own, or that of which it is a view."""
        found = self._tensors[name]
        while found.view_of is not None:
            found = self._tensors[found.view_of]
        return found

    def named(self, name: str) -> Tensor:
        """The tensor ``name``, a view or not."""
        return self._tensors[name]

    def saved(self, kept: Collection[str] = ()) -> tuple[Tensor, ...]:
        """What forward leaves for backward, each storage once; ``kept`` beside."""
        names = dict.fromkeys(
            self.tensor(name).name for operator in self.operators for name in operator.saves
        )
        own = {tensor.name for operator in self.operators for tensor in operator.keeps}
        wanted = {*names, *own, *(self.tensor(name).name for name in kept)}
        return tuple(tensor for tensor in self._tensors.values() if tensor.name in wanted)

    @cached_property
    def endings(self) -> tuple[tuple[str, ...], ...]:
        """For each operator the storages that forward has no use for after it."""
        numbers = {operator.name: number for number, operator in enumerate(self.operators)}
        end = len(self.operators) - 1
        last: dict[str, int] = {}
        for number, operator in enumerate(self.operators):
            for tensor in (*operator.makes, *(self._tensors[name] for name in operator.reads)):
                until = number if tensor.held_to is None else max(number, numbers.get(tensor.held_to, end))
                root = self.tensor(tensor.name).name
                last[root] = max(last.get(root, 0), until)
        endings: list[list[str]] = [[] for _ in self.operators]
        for root, number in last.items():
            endings[number].append(root)
        return tuple(map(tuple, endings))

    def weight_bytes(self) -> int:
        """All gradients of weights."""
        return sum(weight.bytes for operator in self.operators for weight in operator.weights)


class _Live:
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

    def mark(self, scratch_bytes: int = 0, kernel_bytes: int = 0, name: str = "") -> None:
        """See whether this is the highest moment so far, with what is there only now."""
        total = self._total + scratch_bytes + kernel_bytes
        if total > self._peak_total:
            self._peak_total = total
            beside = ((TEMPORARIES, scratch_bytes), (WORKSPACES, kernel_bytes))
            only_now = (Term(component, name, size) for component, size in beside if size)
            self._peak = (*self._held.values(), *only_now)

    def result(self) -> Pass:
        return Pass(self._peak, tuple(self._held.values()))


def forward(tape: Tape, *, saves: bool = True, kept: Collection[str] = ()) -> Pass:
    """Run ``tape`` forward; without ``saves`` as under ``no_grad``, leaving ``kept`` alone.

    ``kept`` names tensors that stay in any case: what a checkpoint holds on to.
    """
    live = _Live()
    stays = {tensor.name for tensor in (tape.saved(kept) if saves else map(tape.tensor, kept))}
    for tensor in tape.inputs:
        live.take(tensor, tensor.component if tensor.name in stays else TEMPORARIES)
    _run_forward(tape, live, stays, saves=saves)
    for name in tape.outputs:
        if tape.tensor(name).name not in stays:
            live.drop(tape.tensor(name).name)
    return live.result()


def _run_forward(
    tape: Tape, live: _Live, stays: Collection[str], *, saves: bool, done: Collection[str] = ()
) -> None:
    """Forward over what is alive; ``done`` names tensors that are there already and are not made again."""
    outputs = {tape.tensor(name).name for name in tape.outputs}
    live.mark()
    for operator, ending in zip(tape.operators, tape.endings, strict=True):
        made = (*operator.makes, *(kept for kept in operator.keeps if saves or kept.name in stays))
        for tensor in made:
            if tensor.view_of is None and tensor.name not in done:
                live.take(tensor, tensor.component if tensor.name in stays else TEMPORARIES)
        live.mark(operator.forward_scratch_bytes, operator.forward_kernel_bytes, operator.name)
        for root in ending:
            if root not in stays and root not in outputs:
                live.drop(root)


def backward(tape: Tape, gradients: Gradients = "kept") -> Pass:
    """Run ``tape`` backward after a forward that saved."""
    live = _Live()
    for tensor in tape.saved():
        live.take(tensor, tensor.component)
    _take_incoming(tape, live)
    _Backward(tape, live, gradients).run()
    return live.result()


def recomputed_backward(tape: Tape, kept: Collection[str], gradients: Gradients = "kept") -> Pass:
    """Backward of a checkpointed block: forward again from ``kept``, what the checkpoint held, then backward.

    What the checkpoint held is not made again; operators that only make what nothing saves and that come
    after the last that saves are not run again (``torch.utils.checkpoint`` stops early).
    """
    live = _Live()
    held = [tape.tensor(name) for name in kept]
    for tensor in held:
        live.take(tensor, tensor.component)
    _take_incoming(tape, live)
    inputs = {tensor.name for tensor in tape.inputs}
    stays = {tensor.name for tensor in tape.saved([name for name in kept if name in inputs])}
    for tensor in tape.inputs:
        live.take(tensor, tensor.component)
    part = _until_last_save(tape)
    _run_forward(part, live, stays, saves=True, done={tensor.name for tensor in held})
    for name in part.outputs:
        if name not in stays:
            live.drop(name)
    _Backward(tape, live, gradients, is_checkpointed=True).run()
    return live.result()


def _until_last_save(tape: Tape) -> Tape:
    last = max(
        (n for n, operator in enumerate(tape.operators) if operator.saves or operator.keeps), default=-1
    )
    operators = list(tape.operators[: last + 1])
    if operators:  # it saves what it reads before it runs, and is not run then
        final = operators[-1]
        made = tuple(tensor for tensor in final.makes if tensor.name in final.saves)
        operators[-1] = replace(final, makes=made)
    return Tape(tape.inputs, tuple(operators), ())


def _take_incoming(tape: Tape, live: _Live) -> None:
    for name in tape.outputs:
        live.take(tape.named(name), TEMPORARIES, _grad(name))


class _Backward:
    """One pass backward: which gradients are there, and who reads each still."""

    def __init__(
        self, tape: Tape, live: _Live, gradients: Gradients, *, is_checkpointed: bool = False
    ) -> None:
        self._tape = tape
        self._is_checkpointed = is_checkpointed
        self._live = live
        self._gradients = gradients
        self._uses = Counter(name for operator in tape.operators for name in _saves_of(tape, operator))
        self._grads: dict[str, str] = {}
        self._readers = Counter[str]()
        self._views: set[str] = set()

    def run(self) -> None:
        """From the outputs' gradients, which are there, to those of inputs and weights."""
        for name in self._tape.outputs:
            self._hold(name, _grad(name))
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
        fresh: list[tuple[str, str]] = []
        for name in dict.fromkeys(operator.reads):
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
        for weight in operator.weights:
            is_kept = self._gradients == "kept" and weight.joins is None
            live.take(weight, GRADIENTS if is_kept else TEMPORARIES, _grad(weight.name))
        name = f"{operator.name} backward"
        live.mark(operator.backward_scratch_bytes, operator.backward_kernel_bytes, name)
        if self._is_checkpointed and not operator.gives_kept:  # what was recomputed is dropped as soon as it is unpacked and used
            self._release(operator)
        if operator.backward_sum_bytes:
            live.mark(operator.backward_scratch_bytes, operator.backward_sum_bytes, name)
        for key in sources:
            self._readers[key] -= 1
        handed = {key for _, key in fresh}
        self._drop_unread([key for key in sources if key not in handed])
        return fresh

    def _release(self, operator: Operator) -> None:
        """What it saved goes before the gradients that it made are added to others."""
        for name in _saves_of(self._tape, operator):
            self._uses[name] -= 1
            if not self._uses[name]:
                self._live.drop(name)

    def _end_weights(self, operator: Operator) -> None:
        """The weights' gradients, made a moment ago, stay or go."""
        for weight in operator.weights:
            if self._gradients == "freed" and weight.joins != "waits":
                self._live.mark(weight.update_bytes, name=f"update of {weight.name}")
            self._live.drop(_grad(weight.name))
            if weight.joins == "waits" or (self._gradients == "kept" and weight.joins is None):
                self._live.take(weight, GRADIENTS, _grad(weight.name))

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
            total = f"{_grad(name)} summed"
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


def _fresh_key(name: str, operator: Operator, live: _Live) -> str:
    key = _grad(name)
    return f"{key} of {operator.name}" if key in live else key


def _saves_of(tape: Tape, operator: Operator) -> Iterator[str]:
    yield from dict.fromkeys(tape.tensor(name).name for name in operator.saves)
    yield from (tensor.name for tensor in operator.keeps)


def _grad(name: str) -> str:
    return f"{name}.grad"
