"""From tapes to a training step: its moments, what is there at each, and which is the highest.

A step is blocks in forward order (embedding, layers in groups of alike ones, head and loss), each with its
tape, between what is there all the time. The highest moment of a group of alike layers is at its first or
its last one: what forward leaves grows by the same amount a layer, what backward frees and the gradients it
leaves do too. So a step of any depth has some ten moments that can be its peak.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from ..components import GRADIENTS
from .tape import Gradients, Pass, Tape, backward, forward, recomputed_backward
from .terms import Term, total_bytes


@dataclass(frozen=True, slots=True)
class Block:
    """``count`` alike blocks, one after the other."""

    name: str
    tape: Tape
    count: int = 1
    checkpoint: tuple[str, ...] | None = None
    """Recomputed in backward from these tensors of the tape, its inputs among them; None: nothing is."""
    saves: bool = True
    """False: it runs under ``no_grad`` and has no backward; what ``checkpoint`` names stays (a cache)."""
    stays: tuple[Term, ...] = ()
    """What each of them leaves from its forward to the end of its backward beside its tape's (autocast)."""
    until_loss: tuple[Term, ...] = ()
    """What each of them leaves until all forward is over: autocast's copies of weights, where they are not
    saved."""
    beside_forward: tuple[Term, ...] = ()
    """There while one of them runs forward: gathered parameters."""
    beside_backward: tuple[Term, ...] = ()
    after_backward: tuple[Term, ...] = ()
    """There at the end of one's backward beside its gradients: buffers of a reduction."""
    shards: tuple[Term, ...] | None = None
    """The gradients that one leaves, where they are not those its backward makes but this rank's part."""
    shards_at_end: bool = False
    """Its gradients are whole until backward is over (FSDP2's root)."""


@dataclass(frozen=True, slots=True)
class Step:
    """One rank's training step."""

    static: tuple[Term, ...]
    """There at every moment: parameters, optimizer states, buffers, inputs, workspaces."""
    blocks: tuple[Block, ...]
    """In forward order."""
    gathered: tuple[Term, ...] = ()
    """There from the start of forward to the end of backward, and not in the optimizer's step."""
    at_end: tuple[Term, ...] = ()
    """There when backward is over, beside all gradients: a last reduction's buffers."""
    gradients: Gradients = "kept"
    held_gradients: tuple[Term, ...] = ()
    """There from the start: gradients of earlier micro-batches, or buffers that are never freed."""
    in_flight: int = 1
    """Micro-batches whose forward has run when the first backward begins (pipeline stages)."""
    optimizer_temporaries: tuple[Term, ...] = ()
    """There while the optimizer steps."""
    kept_to_step: tuple[Term, ...] = ()
    """Left from the forward until after the optimizer's step: a loss, logits that a variable holds."""
    kept_from_before: tuple[Term, ...] = ()
    """The previous iteration's, until its variable is bound again, at the end of the forward."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What is there at one moment that can be the peak."""

    name: str
    terms: tuple[Term, ...] = field(repr=False)
    bytes: int = field(init=False)
    """All of it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "bytes", total_bytes(self.terms))


def moments_of(step: Step) -> tuple[Moment, ...]:
    """The moments of ``step`` that can be its peak, in their order."""
    runs = [_run_of(block, step.gradients) for block in step.blocks]
    base = [*step.static, *step.held_gradients]
    others = [term for run in runs for term in run.left(run.block.count * (step.in_flight - 1))]
    whole = [term for run in runs for term in run.made(run.block.count)]
    shards = [term for run in runs for term in run.kept(run.block.count)]
    return (
        Moment("start", (*base, *step.kept_from_before)),
        *_forward_moments(runs, [*base, *step.gathered, *step.kept_from_before, *others]),
        *_backward_moments(runs, [*base, *step.gathered, *step.kept_to_step, *others]),
        Moment("end of backward", (*base, *step.gathered, *whole, *step.at_end, *step.kept_to_step)),
        Moment("optimizer step", (*base, *shards, *step.kept_to_step, *step.optimizer_temporaries)),
    )


def peak_of(moments: Sequence[Moment]) -> Moment:
    """The highest; of equals the first."""
    return max(moments, key=lambda moment: moment.bytes)


class _Run:
    """One block's passes, each reckoned once."""

    def __init__(self, block: Block, gradients: Gradients) -> None:
        self.block = block
        self.forward = _forward(block)
        self._gradients: Gradients = "kept" if block.shards is not None else gradients
        self.backward = _backward(block, self._gradients) if block.saves else None

    def left(self, count: int) -> list[Term]:
        """What ``count`` of its forwards leave."""
        return _times([*self.forward.end, *self.block.stays], count)

    def own_gradients(self) -> list[Term]:
        """Those that one backward makes and that are there at its end."""
        return [term for term in self.backward.end if term.component == GRADIENTS] if self.backward else []

    def made(self, count: int) -> list[Term]:
        """The gradients that ``count`` of its backwards leave."""
        return _times(self.own_gradients(), count) if self.block.shards_at_end else self.kept(count)

    def kept(self, count: int) -> list[Term]:
        """The gradients of ``count`` of them that the optimizer sees."""
        shards = self.block.shards
        return _times(self.own_gradients() if shards is None else shards, count)


@lru_cache(maxsize=256)
def _run_of(block: Block, gradients: Gradients) -> _Run:
    """Blocks that many ranks share are looked at once: tapes are the same where they are the same object."""
    return _Run(block, gradients)


def _forward_moments(runs: Sequence[_Run], base: list[Term]) -> list[Moment]:
    found = []
    left: list[Term] = []
    for run in runs:
        block = run.block
        now = (*block.stays, *block.beside_forward, *run.forward.peak)
        before = (*run.left(block.count - 1), *_times(block.until_loss, block.count - 1))
        found.append(Moment(f"forward of {block.name}", (*base, *left, *before, *now)))
        left += [*run.left(block.count), *_times(block.until_loss, block.count)]
    return found


def _backward_moments(runs: Sequence[_Run], base: list[Term]) -> list[Moment]:
    found = []
    gradients: list[Term] = []
    for number in range(len(runs) - 1, -1, -1):
        run, block = runs[number], runs[number].block
        if run.backward is None:
            continue
        earlier = [term for before in runs[:number] for term in before.left(before.block.count)]
        for place, done in _ends(block.count):
            there = (*base, *earlier, *run.left(block.count - 1 - done), *gradients, *run.made(done))
            now = (*block.stays, *block.beside_backward, *run.backward.peak)
            found.append(Moment(f"backward of {block.name}{place}", (*there, *now)))
            if block.after_backward:
                after = (*there, *block.after_backward, *run.backward.end)
                found.append(Moment(f"reduction of {block.name}{place}", after))
        gradients += run.made(block.count)
    return found


def _ends(count: int) -> list[tuple[str, int]]:
    """Which of ``count`` alike blocks to look at, and how many of them are done with by then."""
    return [("", 0)] if count == 1 else [(" (last)", 0), (" (first)", count - 1)]


def _times(terms: Sequence[Term], count: int) -> list[Term]:
    return [term.times(count) for term in terms] if count > 0 else []


def _forward(block: Block) -> Pass:
    return _forward_pass(block.tape, block.checkpoint, block.saves)


def _backward(block: Block, gradients: Gradients) -> Pass:
    return _backward_pass(block.tape, block.checkpoint, gradients)


@lru_cache(maxsize=64)
def _forward_pass(tape: Tape, checkpoint: tuple[str, ...] | None, saves: bool) -> Pass:
    """Blocks of one stack that are alike share their tape: each pass over it is reckoned once."""
    if saves and checkpoint is None:
        return forward(tape)
    return forward(tape, saves=False, kept=checkpoint or ())


@lru_cache(maxsize=64)
def _backward_pass(tape: Tape, checkpoint: tuple[str, ...] | None, gradients: Gradients) -> Pass:
    if checkpoint is not None:
        return recomputed_backward(tape, checkpoint, gradients)
    return backward(tape, gradients)
