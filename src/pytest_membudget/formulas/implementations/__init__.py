"""What each implementation's layers keep: a stage of a job as blocks with tapes."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from importlib import import_module

from ...errors import UsageMistake
from ..job import Job
from ..moments import Block
from ..stage import Stage
from ..tape import Tape
from ..tape_compiled import compiled


def blocks_of(stage: Stage) -> tuple[Block, ...]:
    """The blocks that one rank of a job runs, in forward order, by ``job.implementation``."""
    module = import_module(f".{stage.job.implementation}", __name__)
    blocks: tuple[Block, ...] = module.blocks_of(stage)
    return tuple(_compiled(block, stage.job) for block in blocks) if stage.job.compiled else blocks


def _compiled(block: Block, job: Job) -> Block:
    """``block`` as compiled code, where it is to be."""
    part = "layers" if block.name.startswith("layers") else "loss" if block.name == "head" else ""
    if part not in job.compiled:
        return block
    if part == "layers" and job.attention in ("math", "unfused"):
        raise UsageMistake(
            f"what compiled layers keep is known with a fused attention kernel, not with {job.attention!r}; "
            "write attention flash, efficient or cudnn"
        )
    return replace(block, tape=_tape(block.tape))


@lru_cache(maxsize=64)
def _tape(tape: Tape) -> Tape:
    """Identical blocks share their tape, compiled or not: each pass over it is computed once."""
    return compiled(tape)
