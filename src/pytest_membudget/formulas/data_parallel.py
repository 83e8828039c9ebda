"""A step's blocks with what data parallelism adds to them: gathered parameters, reduced gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..components import GRADIENTS
from . import states
from .communication import Group, sharded
from .implementations import blocks_of
from .layout import group_of, layer_group, layer_tensors, root_tensors
from .local_tensors import LocalTensor
from .moments import Block
from .number_types import bytes_for
from .sharding import ceil_div, shard_ranks
from .stage import Stage
from .terms import Term

_SHARDS_GRADIENTS = ("fsdp2", "zero2", "zero3")
_ZERO = "arXiv:1910.02054, section 5.2"


def communicating_blocks(
    stage: Stage, tensors: Sequence[LocalTensor]
) -> tuple[tuple[Block, ...], tuple[Term, ...], tuple[Term, ...]]:
    """The blocks with what data parallelism adds; what is gathered all along, and what its end takes."""
    job = stage.job
    blocks = blocks_of(stage)
    if job.data_parallel.kind == "zero2":
        return tuple(_partitioned(block, stage, tensors) for block in blocks), (), ()
    if not _gathers(stage):
        return blocks, (), ()
    root = group_of(root_tensors(tensors), job, reshards=False)
    if job.data_parallel.wraps_ends:
        return sharded(blocks, [_own_group(block, stage, tensors) for block in blocks]), (), ()
    made = sharded(
        blocks,
        [_layers_group(block, stage) for block in blocks],
        gathered_before=root,
        keeps_last=job.data_parallel.keeps_last_layer,
    )
    ends = tuple(_at_root(block, root) if _number_of(block) is None else block for block in made)
    # the root's flat buffer is held until the first layer has been copied out
    during = (*ends[0].during_forward, root.flat())
    ends = (replace(ends[0], before_forward=root.gathering(), during_forward=during), *ends[1:])
    return ends, (root.parameters(),), (*root.reduced(), *root.outputs())


def _partitioned(block: Block, stage: Stage, tensors: Sequence[LocalTensor]) -> Block:
    """ZeRO 2 leaves this rank's part of each gradient."""
    own, job = _tensors_of(block, stage, tensors), stage.job
    size_bytes = 0
    for tensor in own:
        if tensor.is_trained:
            part = ceil_div(tensor.elements, shard_ranks(job, is_expert=tensor.place == "expert"))
            size_bytes += bytes_for(part, states.gradient_type(tensor, job)) * tensor.count
    parts = (Term(GRADIENTS, "gradients", size_bytes, "elements/ranks*type", _ZERO),) if size_bytes else ()
    return replace(block, shards=parts) if own else block


def _tensors_of(block: Block, stage: Stage, tensors: Sequence[LocalTensor]) -> list[LocalTensor]:
    """The parameters of one of ``block``'s layers, or of the end of the model that it is."""
    number = _number_of(block)
    if number is not None:
        return layer_tensors(stage, stage.groups[number][0])
    return [tensor for tensor in tensors if tensor.layer == block.name]


def _at_root(block: Block, root: Group) -> Block:
    """Embedding and head leave whole gradients until the end; the root's shards go by the head."""
    return replace(block, shards=root.shards() if block.name == "head" else (), shards_at_end=True)


def _layers_group(block: Block, stage: Stage) -> Group | None:
    number = _number_of(block)
    return None if number is None else layer_group(stage, stage.groups[number][0])


def _number_of(block: Block) -> int | None:
    """Which of the stage's groups of layers ``block`` is; None for another part of the model."""
    if not block.name.startswith("layers"):
        return None
    return int(block.name.removeprefix("layers") or 0)


def _own_group(block: Block, stage: Stage, tensors: Sequence[LocalTensor]) -> Group | None:
    group = _layers_group(block, stage)
    if group is not None:
        return group
    own = [tensor for tensor in tensors if tensor.layer == block.name]
    # torchtitan does not reshard the last group: backward wants it at once
    return group_of(own, stage.job, reshards=None if block.name == "embedding" else False) if own else None


def groups_of(
    stage: Stage, tensors: Sequence[LocalTensor], blocks: Sequence[Block]
) -> tuple[list[Group | None], Group | None]:
    """What is gathered together for each of ``blocks``, and by the root all along, where FSDP2 shards."""
    if not _gathers(stage):
        return [None] * len(blocks), None
    job = stage.job
    if job.data_parallel.wraps_ends:
        return [_own_group(block, stage, tensors) for block in blocks], None
    found = [_layers_group(block, stage) for block in blocks]
    last = max((number for number, group in enumerate(found) if group is not None), default=None)
    if job.data_parallel.keeps_last_layer and last is not None:
        group = found[last]
        found[last] = None if group is None else replace(group, reshards=False)
    ends = root_tensors(tensors)
    return found, group_of(ends, job, reshards=False) if ends else None


def _gathers(stage: Stage) -> bool:
    job = stage.job
    return job.data_parallel.kind in _SHARDS_GRADIENTS and shard_ranks(job) > 1 and job.task == "train"
