"""Megatron-LM's ranks: blocks of a stage, what is there all the time, and the step that they make.

A step of Megatron-LM differs from torch's in that gradients have separate buffers (``main_grad``)
from the start, so none is made by backward but for a moment, and in that a pipeline stage can hold several
model chunks. Versions read: NVIDIA/Megatron-LM d98e8a64ddf34856e74b24714e3bedb2f5a39553,
NVIDIA/TransformerEngine d0067d0da6cb01811b8072a7d304f0e00344ce2b.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from ...components import ACTIVATIONS, COLLECTIVES, INPUTS
from ...errors import UsageMistake
from ..local_tensors import LocalTensor
from ..moments import Block, Step, moments_of, peak_of
from ..pipeline import interleaved_states
from ..stage import Chunk, Stage
from ..tape import forward
from ..terms import Term, total_bytes
from .megatron_ends import embedding_tape, head_tape
from .megatron_prediction import prediction_tape
from .megatron_recompute import layer_blocks
from .megatron_sizes import MegatronSizes, sizes_of
from .megatron_static import static_terms, step_temporaries

_SCHEDULES = "megatron/core/pipeline_parallel/schedules.py"


def blocks_of(stage: Stage) -> tuple[Block, ...]:
    """The blocks of the model chunk that runs when most is there; with one chunk those of the stage."""
    return _worst(stage).blocks


def step_of(stage: Stage, tensors: Sequence[LocalTensor]) -> Step:
    """One rank's training step; ``tensors`` are the rank's own.

    Its moments are those of the model chunk that runs when most is there, plus what all chunks then hold
    for micro-batches whose backward is still to come. Raises ``UsageMistake`` for what Megatron-core's own
    layers are not run with.
    """
    _check(stage)
    worst = _worst(stage)
    return Step(
        static=static_terms(stage, tensors),
        blocks=worst.blocks,
        gathered=(*worst.held, *_handed_over(stage)),
        gradients="freed",
        optimizer_temporaries=step_temporaries(stage, tensors),
    )


def _check(stage: Stage) -> None:
    job = stage.job
    if job.task != "train" or job.adapter is not None or job.teacher is not None:
        raise UsageMistake(
            "Megatron-LM's layers are computed for training a whole model, without adapters and teachers; "
            "write implementation transformers or torchtitan for the rest"
        )
    kind = job.data_parallel.kind
    if stage.job.degrees.data_parallel_shard_degree > 1 and not kind.startswith("megatron"):
        raise UsageMistake(
            f"Megatron-LM's ranks are not run with data parallelism {kind!r}; "
            "write megatron, or megatron_distributed for its distributed optimizer"
        )


def after_step(stage: Stage, tensors: Sequence[LocalTensor]) -> tuple[Term, ...]:
    """What stays between two steps: all that is static, and what the pipeline's schedule keeps."""
    static = [term for term in static_terms(stage, tensors) if term.component != INPUTS]
    return (*static, *_last_inputs(stage), *step_temporaries(stage, tensors))


def _chunks(stage: Stage) -> tuple[Chunk, ...]:
    whole = Chunk(stage.groups, 0, stage.has_embedding, stage.has_head, stage.in_flight)
    return stage.chunks or (whole,)


@dataclass(frozen=True, slots=True)
class _Part:
    """What one model chunk runs, what its forward leaves, and the most that it takes on its own."""

    blocks: tuple[Block, ...]
    left: tuple[Term, ...]
    left_bytes: int
    peak_bytes: int


@lru_cache(maxsize=128)
def _part(sizes: MegatronSizes, chunk: Chunk, *, is_shared: bool) -> _Part:
    """Identical chunks of all stages share it; ``is_shared``: one table is embedding and head of the rank."""
    blocks = _chunk_blocks(sizes, chunk, is_shared=is_shared)
    left = left_by(blocks)
    alone = peak_of(moments_of(Step((), blocks, gradients="freed")))
    return _Part(blocks, left, total_bytes(left), alone.bytes)


def _chunk_blocks(sizes: MegatronSizes, chunk: Chunk, *, is_shared: bool) -> tuple[Block, ...]:
    found: list[Block] = []
    if chunk.has_embedding:
        found.append(Block("embedding", embedding_tape(sizes, shares_weight=is_shared)))
    found += layer_blocks(sizes, chunk.groups)
    if chunk.has_head:
        found += [
            Block(f"prediction layer {number}", prediction_tape(sizes, number=number))
            for number in range(sizes.job.model.prediction_layers)
        ]
        found.append(Block("head and loss", head_tape(sizes, shares_weight=is_shared)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _State:
    """A moment of the schedule: what runs, and what is held in addition."""

    blocks: tuple[Block, ...]
    held: tuple[Term, ...]


def _worst(stage: Stage) -> _State:
    """Of the schedule's states the one with most bytes."""
    sizes, chunks = sizes_of(stage), _chunks(stage)
    is_shared = stage.job.model.tied and stage.has_embedding and stage.has_head
    parts = [
        _part(sizes, replace(chunk, first_layer=0, in_flight=1), is_shared=is_shared) for chunk in chunks
    ]
    if len(chunks) == 1:
        others = chunks[0].in_flight - 1
        return _State(parts[0].blocks, tuple(term.times(others) for term in parts[0].left if others))
    running, counts = max(
        interleaved_states(stage.job, stage.pipeline_rank),
        key=lambda state: (
            parts[state[0]].peak_bytes
            + sum(count * part.left_bytes for part, count in zip(parts, state[1], strict=True))
        ),
    )
    held = (
        term.times(count) for part, count in zip(parts, counts, strict=True) if count for term in part.left
    )
    return _State(parts[running].blocks, tuple(held))


def left_by(blocks: Sequence[Block]) -> tuple[Term, ...]:
    """What one forward through ``blocks`` leaves for its backward."""
    found: list[Term] = []
    for block in blocks:
        left = (
            forward(block.tape)
            if block.checkpoint is None
            else forward(block.tape, saves=False, kept=block.checkpoint)
        )
        found += [term.times(block.count) for term in (*left.end, *block.stays)]
    return tuple(found)


def _boundary(stage: Stage) -> int:
    """Bytes of a tensor that goes from one stage to the next."""
    sizes = sizes_of(stage)
    return sizes.bytes(sizes.rows, sizes.hidden)


def _handed_over(stage: Stage) -> tuple[Term, ...]:
    """Tensors of the schedule in addition to those that layers save.

    The gradient of the previous micro-batch's input is held by its variable until the next backward.
    """
    if stage.job.degrees.pipeline_parallel_degree == 1 or stage.job.accumulation == 1:
        return ()
    return (Term(COLLECTIVES, "gradient sent to the stage before", _boundary(stage), "s*b*h*2", _SCHEDULES),)


def _last_inputs(stage: Stage) -> tuple[Term, ...]:
    """The input that each chunk's decoder was given last, and its gradient: ``set_input_tensor`` keeps it."""
    if stage.job.degrees.pipeline_parallel_degree == 1:
        return ()
    count = sum(1 for chunk in _chunks(stage) if not chunk.has_embedding)
    size_bytes = 2 * _boundary(stage)
    source = "megatron/core/transformer/transformer_block.py set_input_tensor"
    return (
        Term(ACTIVATIONS, "last inputs and their gradients", size_bytes, "2*s*b*h*2", source).times(count),
    )
