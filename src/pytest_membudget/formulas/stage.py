"""What one rank runs of a job: its layers, its place among the ranks, its part of the sequence."""

from __future__ import annotations

from dataclasses import dataclass

from .job import Job
from .model import Layer


@dataclass(frozen=True, slots=True)
class Chunk:
    """One run of neighbouring layers of a rank: with the interleaved schedule it has several."""

    groups: tuple[tuple[Layer, int], ...]
    """Its layers, identical ones together."""
    first_layer: int = 0
    """The number of its first layer in the model's stack."""
    has_embedding: bool = False
    has_head: bool = False
    in_flight: int = 1
    """Micro-batches whose forward through it has run when the rank's first backward begins."""

    @property
    def layer_count(self) -> int:
        """How many layers."""
        return sum(count for _, count in self.groups)


@dataclass(frozen=True, slots=True)
class Stage:
    """One rank's part of a job; ranks with identical parts have the same figure."""

    job: Job
    rank: int
    """The first of the identical ranks."""
    ranks: int
    """How many ranks are identical."""
    groups: tuple[tuple[Layer, int], ...]
    """Its layers, identical ones together, of all its model chunks."""
    has_embedding: bool = True
    has_head: bool = True
    in_flight: int = 1
    """Micro-batches whose forward has run when the first backward begins. Where chunks differ in it (the
    interleaved schedule): the most of any; ``chunks`` has the exact numbers."""
    pipeline_rank: int = 0
    chunks: tuple[Chunk, ...] = ()
    """Its model chunks in order; one where the schedule is not interleaved."""

    @property
    def sequence(self) -> int:
        """Tokens of a sequence on this rank: context parallelism has split it."""
        return -(-self.job.sequence // self.job.degrees.context_parallel_degree)
