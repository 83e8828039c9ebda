"""Megatron-LM's ranks: blocks of a stage, what is there all the time, and the step that they make.

A step of Megatron-LM differs from torch's own in that gradients have buffers of their own (``main_grad``) from the
start, so none is made by backward but for a moment, and in that a pipeline stage can hold several model chunks.
Versions read: NVIDIA/Megatron-LM d98e8a64ddf34856e74b24714e3bedb2f5a39553, NVIDIA/TransformerEngine
d0067d0da6cb01811b8072a7d304f0e00344ce2b.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...components import ACTIVATIONS, COLLECTIVES
from ..local_tensors import LocalTensor
from ..model import Layer
from ..moments import Block, Step
from ..stage import Chunk, Stage
from ..tape import forward
from ..terms import Term
from .megatron_ends import embedding_tape, head_tape
from .megatron_layer import layer_tape
from .megatron_recompute import layer_blocks
from .megatron_sizes import MegatronSizes, sizes_of
from .megatron_static import static_terms, step_temporaries, tied_table_bytes

_SCHEDULES = "megatron/core/pipeline_parallel/schedules.py"


def blocks_of(stage: Stage) -> tuple[Block, ...]:
    """The blocks of the stage's last model chunk, whose backward comes first; for one chunk those of the stage."""
    return _chunk_blocks(sizes_of(stage), stage, _chunks(stage)[-1])


def step_of(stage: Stage, tensors: Sequence[LocalTensor]) -> Step:
    """One rank's training step; ``tensors`` are the rank's own.

    Its moments are those at which most micro-batches are in flight: the first backward's, and the forward before.
    """
    return Step(
        static=static_terms(stage, tensors),
        blocks=blocks_of(stage),
        gathered=(*_in_flight(stage), *_handed_over(stage)),
        gradients="freed",
        optimizer_temporaries=step_temporaries(stage, tensors),
    )


def after_step(stage: Stage, tensors: Sequence[LocalTensor]) -> tuple[Term, ...]:
    """What stays between two steps: all that is static, and what the pipeline's schedule keeps."""
    return (*static_terms(stage, tensors), *_last_inputs(stage))


def _chunks(stage: Stage) -> tuple[Chunk, ...]:
    whole = Chunk(stage.groups, 0, stage.has_embedding, stage.has_head, stage.in_flight)
    return stage.chunks or (whole,)


def _chunk_blocks(sizes: MegatronSizes, stage: Stage, chunk: Chunk) -> tuple[Block, ...]:
    is_shared = sizes.job.model.tied and stage.has_embedding and stage.has_head
    found: list[Block] = []
    waiting = tied_table_bytes(sizes) if is_shared else 0
    if chunk.has_embedding:
        found.append(Block("embedding", embedding_tape(sizes, shares_weight=is_shared)))
    found += layer_blocks(sizes, chunk.groups)
    if chunk.has_head:
        found.append(Block("head and loss", head_tape(sizes, shares_weight=bool(waiting))))
    return tuple(found)


def _in_flight(stage: Stage) -> tuple[Term, ...]:
    """What the forwards of other micro-batches and of other chunks have left."""
    sizes = sizes_of(stage)
    found: list[Term] = []
    chunks = _chunks(stage)
    for number, chunk in enumerate(chunks):
        others = chunk.in_flight - (number == len(chunks) - 1)
        if others > 0:
            found += [term.times(others) for term in left_by(_chunk_blocks(sizes, stage, chunk))]
    return tuple(found)


def left_by(blocks: Sequence[Block]) -> list[Term]:
    """What one forward through ``blocks`` leaves for its backward."""
    found: list[Term] = []
    for block in blocks:
        left = (
            forward(block.tape)
            if block.checkpoint is None
            else forward(block.tape, saves=False, kept=block.checkpoint)
        )
        found += [term.times(block.count) for term in (*left.end, *block.stays)]
    return found


def _boundary(stage: Stage) -> int:
    """Bytes of a tensor that goes from one stage to the next."""
    sizes = sizes_of(stage)
    return sizes.bytes(sizes.rows, sizes.hidden)


def _handed_over(stage: Stage) -> tuple[Term, ...]:
    """Tensors of the schedule beside those that layers save.

    The gradient of the previous micro-batch's input is held by its variable until the next backward.
    """
    if stage.job.degrees.pipeline_parallel_degree == 1 or stage.job.accumulation == 1:
        return ()
    return (
        Term(COLLECTIVES, "gradient sent to the stage before", _boundary(stage), "s*b*h*2", _SCHEDULES),
    )


def _last_inputs(stage: Stage) -> tuple[Term, ...]:
    """Each chunk's decoder keeps the last input that it was given, and that its gradient (``set_input_tensor``)."""
    if stage.job.degrees.pipeline_parallel_degree == 1:
        return ()
    count = sum(1 for chunk in _chunks(stage) if not chunk.has_embedding)
    size_bytes = 2 * _boundary(stage)
    source = "megatron/core/transformer/transformer_block.py set_input_tensor"
    return (Term(ACTIVATIONS, "last inputs and their gradients", size_bytes, "2*s*b*h*2", source).times(count),)


__all__ = ["Layer", "after_step", "blocks_of", "layer_tape", "left_by", "step_of"]
