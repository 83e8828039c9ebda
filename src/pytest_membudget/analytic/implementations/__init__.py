"""What each implementation's layers keep: a stage of a job as blocks with tapes."""

from __future__ import annotations

from importlib import import_module

from ..moments import Block
from ..stage import Stage


def blocks_of(stage: Stage) -> tuple[Block, ...]:
    """The blocks that one rank of a job runs, in forward order, by ``job.implementation``."""
    module = import_module(f".{stage.job.implementation}", __name__)
    blocks: tuple[Block, ...] = module.blocks_of(stage)
    return blocks
