"""Two training steps of one rank, tensor by tensor, into memory as the caching allocator fits them.

A formula knows what is alive at a step's highest moment, not where it lies: how much of a segment stays empty
follows from the order in which tensors come and go. Here that order is taken from the same tapes and put
through :mod:`.fitting`: parameters as the model makes them, then two steps. The first one
makes gradients and the optimizer's states; the second one has the states from its start.

What has no order: what an operator or the optimizer's step makes besides its results is there all
at once, as in the formulas.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ...components import (
    COLLECTIVES,
    FROZEN_PARAMETERS,
    GRADIENTS,
    OPTIMIZER_STATES,
    PARAMETERS,
    WORKSPACES,
)
from ..communication import Group
from ..job import Job
from ..local_tensors import LocalTensor
from ..moments import Block, Step
from ..tape_backward import gradient_name
from ..tape_shapes import Gradients
from ..terms import Term
from .parameters import in_order, states_in_order, storages, temporaries_in_order
from .pool import Held, Pool
from .script import PRODUCT, Event, backward_script, forward_script, held_by
from .sharded import Sharded

#: What a tape calls its input that is the output of the one before it.
_STREAM = "hidden_states"
#: A variable of the base model's forward while its layers run (``embeddings_held``).
_EMBEDDINGS = "inputs_embeds"
_MADE_APART = (PARAMETERS, FROZEN_PARAMETERS, OPTIMIZER_STATES, WORKSPACES)
_STEPS = 2


def replayed_bytes(
    job: Job,
    step: Step,
    tensors: Sequence[LocalTensor],
    groups: Sequence[Group | None] = (),
    root: Group | None = None,
) -> int:
    """The most that the allocator reserves in two steps of a job whose order is known.

    ``groups``: what is gathered for each of ``step``'s blocks, where parameters are sharded; ``root``: what
    is gathered all along.
    """
    return _Replay(job, step, tensors, groups, root).run()


@dataclass(slots=True)
class _Running:
    """One block of one micro-batch between its forward and its backward."""

    number: int
    block: Block
    there: dict[str, Held] = field(default_factory=dict)
    stays: list[Held] = field(default_factory=list)


class _Replay:
    def __init__(
        self,
        job: Job,
        step: Step,
        tensors: Sequence[LocalTensor],
        groups: Sequence[Group | None],
        root: Group | None,
    ) -> None:
        self._job = job
        self._step = step
        self._pool = Pool(expandable=job.expandable_segments)
        self._parameters = in_order(tensors)
        self._blocks = [block for block in step.blocks for _ in range(block.count)]
        whole = groups or [None] * len(step.blocks)
        own = [group for group, block in zip(whole, step.blocks, strict=True) for _ in range(block.count)]
        self._sharded = Sharded(self._pool, own, root)
        self._held_now: dict[tuple[str, int], list[Held]] = {}
        self._gradients: list[Held] = []
        self._kept: list[Held] = []
        self._threads: set[str] = set()
        self._has_states = False

    def run(self) -> int:
        pool = self._pool
        for tensor in self._parameters:
            for size_bytes in storages(tensor):
                pool.make(size_bytes)
        pool.make_all(term for term in self._step.static if term.component not in _MADE_APART)
        for _ in range(_STEPS):
            self._micro_batches()
            self._optimizer_step()
        return pool.reserved_bytes

    def _micro_batches(self) -> None:
        """As many forwards as are in flight, then the backwards; of what repeats, one more."""
        ahead = self._step.in_flight
        waiting = [self._forward() for _ in range(ahead)]
        self._backward(waiting.pop(0))
        if self._job.accumulation > ahead:
            waiting.append(self._forward())
        for running in waiting:
            self._backward(running)

    def _forward(self) -> list[_Running]:
        pool, sharded = self._pool, self._sharded
        stream: Held | None = None
        until_loss: list[Held] = []
        found = []
        sharded.begin_forward()
        for number, block in enumerate(self._blocks):
            sharded.before_forward(number)
            self._hold_during(block.during_forward, stream)
            running = _Running(number, block, stays=pool.make_all(_own(block.stays)))
            stream = self._block_forward(running, stream)
            names = {term.name for term in block.until_loss}
            until_loss += [running.there.pop(name) for name in names if name in running.there]
            sharded.after_forward(number)
            found.append(running)
        self._hold_during(())
        pool.drop(stream)
        sharded.end_forward()
        pool.drop_all(until_loss)
        before, self._kept = self._kept, pool.make_all(self._step.kept_to_step)
        pool.drop_all(before)
        return found

    def _block_forward(self, running: _Running, stream: Held | None) -> Held | None:
        """From the tensor before a block to the one behind it, which the block may hold too."""
        block, there = running.block, running.there
        tape = block.tape
        if all(tensor.name != _STREAM for tensor in tape.inputs):
            self._pool.drop(stream)
        else:  # a first block's comes from another stage
            found = stream or self._pool.make(tape.named(_STREAM).bytes)
            there.update({_STREAM: found} if found is not None else {})
        lasting = tuple(term.name for term in block.until_loss)
        self._run("forward", forward_script(tape, block.checkpoint, lasting).events, there)
        held = held_by(tape, block.checkpoint)
        last: Held | None = None
        for name in dict.fromkeys(tape.tensor(name).name for name in tape.outputs):
            self._pool.drop(last)
            last = there.get(name)
            if last is not None and name in held:
                last.holders += 1
            elif last is not None:
                del there[name]
        return last

    def _backward(self, found: Sequence[_Running]) -> None:
        pool, sharded = self._pool, self._sharded
        is_first = not self._gradients and not self._job.optimizer.in_backward
        incoming: Held | None = None
        waiting: list[Held] = []
        for running in reversed(found):
            sharded.before_backward(running.number)
            self._hold_during(running.block.during_backward)
            incoming, made = self._block_backward(running, incoming, self._mode(running.block, is_first))
            pool.drop_all(running.stays)
            if running.block.shards is not None:
                made = sharded.after_backward(running.number, made, stays=is_first)
            (self._gradients if is_first else waiting).extend(made)
        self._hold_during(())
        pool.drop_all((incoming, *waiting))
        self._gradients += sharded.end_backward(stays=is_first)

    def _mode(self, block: Block, is_first: bool) -> Gradients:
        """What becomes of a block's gradients: whole ones that are reduced are there until they are."""
        if block.shards is not None or is_first:
            return "kept"
        return "freed" if self._job.optimizer.in_backward else "added"

    def _block_backward(
        self, running: _Running, incoming: Held | None, mode: Gradients
    ) -> tuple[Held | None, list[Held]]:
        """From the gradient behind a block to the one before it, and those of its weights that stay."""
        block, there, pool = running.block, running.there, self._pool
        last = block.tape.outputs[-1]
        found = incoming or pool.make(block.tape.named(last).bytes)
        there.update({gradient_name(last): found} if found is not None else {})
        script = backward_script(block.tape, block.checkpoint, mode)
        self._run("backward", script.events, there)
        before = there.pop(gradient_name(_STREAM), None)
        made = [there.pop(name) for name, kind in script.left if kind == GRADIENTS and name in there]
        pool.drop_all(there.values())
        there.clear()
        return before, made

    def _optimizer_step(self) -> None:
        """States are made once, parameter by parameter; gradients go where they are set to None."""
        pool = self._pool
        if not self._has_states:
            for size_bytes in states_in_order(self._parameters, self._job):
                pool.make(size_bytes)
            self._has_states = True
        sizes = temporaries_in_order(self._step.optimizer_temporaries, self._parameters)
        pool.drop_all([pool.make(size_bytes) for size_bytes in sizes])
        if self._job.zeroes_to_none:
            pool.drop_all(self._gradients)
            self._gradients = []

    def _run(self, thread: str, events: Sequence[Event], there: dict[str, Held]) -> None:
        """cuBLAS makes a workspace a thread, with its first product: the one runs forward, the other back."""
        if thread in self._threads or PRODUCT not in events:
            self._pool.run(events, there)
            return
        self._threads.add(thread)
        number = events.index(PRODUCT)
        self._pool.run(events[:number], there)
        for term in self._step.static:
            if term.component == WORKSPACES:
                self._pool.make(term.bytes // term.count)
        self._pool.run(events[number:], there)

    def _hold_during(self, terms: Iterable[Term], stream: Held | None = None) -> None:
        """Hold ``terms`` during a block: what neighbouring blocks share is made once, the rest is freed.

        A variable that has the embeddings, where nothing was added to them, has the ``stream`` itself.
        """
        wanted = {(term.name, term.bytes): term for term in _own(terms)}
        if stream is not None and [name for name, _ in wanted] == [_EMBEDDINGS] and not self._held_now:
            stream.holders += 1
            self._held_now = {key: [stream] for key in wanted}
        for key in [key for key in self._held_now if key not in wanted]:
            self._pool.drop_all(self._held_now.pop(key))
        for key, term in wanted.items():
            if key not in self._held_now:
                self._held_now[key] = self._pool.make_all([term])


def _own(terms: Iterable[Term]) -> list[Term]:
    """Without what is gathered and reduced, which :class:`Sharded` makes."""
    return [term for term in terms if term.component != COLLECTIVES]
