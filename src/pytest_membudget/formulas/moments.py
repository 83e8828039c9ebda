"""From tapes to a training step: its moments, what is there at each, and which is the highest.

A step is blocks in forward order (embedding, identical layers in groups, head and loss), each with its
tape, between what is there all the time. The highest moment of a group of identical layers is at its first or
its last one: what forward leaves grows by the same amount a layer, what backward frees and the gradients it
leaves do too. So a step of any depth has some ten moments that can be its peak.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from ..components import GRADIENTS
from .tape import Gradients, Pass, Tape, backward, forward, recomputed_backward
from .tape_places import stranded_bytes
from .term_sums import TermSum
from .terms import Term


@dataclass(frozen=True, slots=True)
class Block:
    """``count`` identical blocks, one after the other."""

    name: str
    tape: Tape
    count: int = 1
    checkpoint: tuple[str, ...] | None = None
    """Recomputed in backward from these tensors of the tape, its inputs among them; None: nothing is."""
    saves: bool = True
    """False: it runs under ``no_grad`` and has no backward; what ``checkpoint`` names stays (a cache)."""
    stays: tuple[Term, ...] = ()
    """What each of them leaves from its forward to the end of its backward besides its tape's (autocast)."""
    until_loss: tuple[Term, ...] = ()
    """What each of them leaves until all forward is over: autocast's copies of weights, where they are not
    saved."""
    during_forward: tuple[Term, ...] = ()
    """There while one of them runs forward: gathered parameters."""
    before_forward: tuple[Term, ...] = ()
    """There just before one runs forward, and not in it: buffers of a gathering."""
    during_backward: tuple[Term, ...] = ()
    after_backward: tuple[Term, ...] = ()
    """There at the end of one's backward in addition to its gradients: buffers of a reduction."""
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
    """There when backward is over, in addition to all gradients: a last reduction's buffers."""
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


class Moment:
    """What is there at one moment that can be the peak: ``parts`` in their order."""

    def __init__(self, name: str, parts: Iterable[TermSum], stranded_bytes: int = 0) -> None:
        self.name = name
        #: what the computing stream's pool holds in addition, into which nothing fits
        self.stranded_bytes = stranded_bytes
        self._parts = tuple(parts)
        #: all of it
        self.bytes = sum(part.bytes for part in self._parts)

    @property
    def terms(self) -> tuple[Term, ...]:
        """All that is there, piece by piece."""
        return tuple(chain.from_iterable(part.terms for part in self._parts))

    @property
    def allocated_by_stream(self) -> Counter[str]:
        """The allocator's blocks of it, in bytes, by the CUDA stream that they are allocated on."""
        sums = Counter[str]()
        for part in self._parts:
            for stream, size_bytes in part.allocated_by_stream.items():
                sums[stream] += size_bytes
        return sums


def moments_of(step: Step) -> tuple[Moment, ...]:
    """The moments of ``step`` that can be its peak, in their order."""
    runs = [_run_of(block, step.gradients) for block in step.blocks]
    base = TermSum((*step.static, *step.held_gradients))
    gathered, to_step, from_before = map(TermSum, (step.gathered, step.kept_to_step, step.kept_from_before))
    others = [run.left(run.block.count * (step.in_flight - 1)) for run in runs]
    whole = [run.made(run.block.count) for run in runs]
    shards = [run.kept(run.block.count) for run in runs]
    return (
        Moment("start", (base, from_before)),
        *_forward_moments(runs, (base, gathered, from_before, *others)),
        *_backward_moments(runs, (base, gathered, to_step, *others)),
        # what was gathered all along goes before its gradients are reduced (``post_backward``)
        Moment("end of backward", (base, *whole, TermSum(step.at_end), to_step)),
        Moment("optimizer step", (base, *shards, to_step, TermSum(step.optimizer_temporaries))),
    )


def peak_of(moments: Sequence[Moment]) -> Moment:
    """The highest; of equals the first."""
    return max(moments, key=lambda moment: moment.bytes)


class _Run:
    """One block's passes, each computed once."""

    def __init__(self, block: Block, gradients: Gradients) -> None:
        self.block = block
        self._gradients: Gradients = "kept" if block.shards is not None else gradients
        forward = _forward(block)
        backward = _backward(block, self._gradients) if block.saves else None
        end = backward.end if backward is not None else ()
        self.has_backward = backward is not None
        self.in_forward = TermSum((*block.stays, *block.during_forward, *forward.peak))
        self.in_gathering = TermSum(block.before_forward)
        peak = backward.peak if backward is not None else ()
        self.in_backward = TermSum((*block.stays, *block.during_backward, *peak))
        #: at the end of its backward, where a reduction has buffers then
        self.in_reduction = TermSum((*block.after_backward, *end))
        self.until_loss = TermSum(block.until_loss)
        self._left = TermSum((*forward.end, *block.stays))
        #: those that one backward makes and that are there at its end
        self._own_gradients = TermSum(term for term in end if term.component == GRADIENTS)
        self._shards = self._own_gradients if block.shards is None else TermSum(block.shards)

    @property
    def stranded_bytes(self) -> int:
        """Of one whose backward follows its forward: what nothing fits into any more."""
        block = self.block
        is_followed = self.has_backward and block.count == 1 and block.checkpoint is None
        return _stranded(block.tape, self._gradients) if is_followed else 0

    def left(self, count: int) -> TermSum:
        """What ``count`` of its forwards leave."""
        return self._left.times(count)

    def made(self, count: int) -> TermSum:
        """The gradients that ``count`` of its backwards leave."""
        return (self._own_gradients if self.block.shards_at_end else self._shards).times(count)

    def kept(self, count: int) -> TermSum:
        """The gradients of ``count`` of them that the optimizer sees."""
        return self._shards.times(count)


@lru_cache(maxsize=256)
def _run_of(block: Block, gradients: Gradients) -> _Run:
    """Blocks that many ranks share are looked at once: tapes are the same where they are the same object."""
    return _Run(block, gradients)


def _forward_moments(runs: Sequence[_Run], base: Sequence[TermSum]) -> list[Moment]:
    found = []
    left: list[TermSum] = []
    for run in runs:
        count = run.block.count
        before = (run.left(count - 1), run.until_loss.times(count - 1))
        if run.in_gathering.bytes:
            found.append(Moment(f"gathering of {run.block.name}", (*base, *left, *before, run.in_gathering)))
        found.append(Moment(f"forward of {run.block.name}", (*base, *left, *before, run.in_forward)))
        left += (run.left(count), run.until_loss.times(count))
    return found


def _backward_moments(runs: Sequence[_Run], base: Sequence[TermSum]) -> list[Moment]:
    found = []
    left = [run.left(run.block.count) for run in runs]
    gradients: list[TermSum] = []
    for number in range(len(runs) - 1, -1, -1):
        run, block = runs[number], runs[number].block
        if not run.has_backward:
            continue
        for place, done in _ends(block.count):
            there = (*base, *left[:number], run.left(block.count - 1 - done), *gradients, run.made(done))
            stranded = run.stranded_bytes if number == len(runs) - 1 else 0
            found.append(Moment(f"backward of {block.name}{place}", (*there, run.in_backward), stranded))
            if block.after_backward:
                found.append(Moment(f"reduction of {block.name}{place}", (*there, run.in_reduction)))
        gradients.append(run.made(block.count))
    return found


def _ends(count: int) -> list[tuple[str, int]]:
    """Which of ``count`` identical blocks to look at, and how many of them are done with by then."""
    return [("", 0)] if count == 1 else [(" (last)", 0), (" (first)", count - 1)]


def _forward(block: Block) -> Pass:
    return _forward_pass(block.tape, block.checkpoint, block.saves)


def _backward(block: Block, gradients: Gradients) -> Pass:
    return _backward_pass(block.tape, block.checkpoint, gradients)


@lru_cache(maxsize=64)
def _stranded(tape: Tape, gradients: Gradients) -> int:
    return stranded_bytes(tape, gradients)


@lru_cache(maxsize=64)
def _forward_pass(tape: Tape, checkpoint: tuple[str, ...] | None, saves: bool) -> Pass:
    """Identical blocks of one stack share their tape: each pass over it is computed once."""
    if saves and checkpoint is None:
        return forward(tape)
    return forward(tape, saves=False, kept=checkpoint or ())


@lru_cache(maxsize=64)
def _backward_pass(tape: Tape, checkpoint: tuple[str, ...] | None, gradients: Gradients) -> Pass:
    if checkpoint is not None:
        return recomputed_backward(tape, checkpoint, gradients)
    return backward(tape, gradients)
