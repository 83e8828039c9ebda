"""Jobs that no formula gets right: the field of a scenario that asks for it, and what to do instead."""

from __future__ import annotations

from collections.abc import Iterator

from .job import Job
from .sharding import shard_ranks

_INSTEAD = "no formula has it; run the step itself in a marked test"
_GATHERS = ("fsdp2", "zero3")


def refused(job: Job) -> Iterator[tuple[str, str]]:
    """Fields of ``job`` whose memory is not known, and why."""
    if "activations" in job.offload:
        yield "offload", f"activations on the host depend on what is copied when: {_INSTEAD}"
    if "layers" in job.compiled and job.checkpointing.mode == "per_operator":
        yield (
            "compiled",
            f"a compiled layer chooses what it keeps, whatever per_operator checkpointing wants: {_INSTEAD}, "
            "or write checkpointing: full or none",
        )
    if _is_sharded_pipeline(job):
        yield (
            "pipeline_parallel_degree",
            "FSDP2 keeps whole parameters and gradients from one micro-batch of a pipeline to the next: "
            f"{_INSTEAD}, or write data_parallel: zero1 or ddp",
        )
    if _has_fp8(job):
        yield (
            "precision",
            "training in fp8 keeps parameters, gradients and most activations in 16 bits or more: "
            f"{_INSTEAD}",
        )


def _is_sharded_pipeline(job: Job) -> bool:
    gathers = job.data_parallel.kind in _GATHERS and shard_ranks(job) > 1
    return gathers and job.task == "train" and job.degrees.pipeline_parallel_degree > 1


def _has_fp8(job: Job) -> bool:
    """Whether it computes in fp8. Weights of generation are stored so, and computed in another type."""
    precision = job.precision
    kinds = [precision.compute_type, precision.reduce, precision.gradients]
    return "fp8" in kinds or (job.task == "train" and precision.parameters == "fp8")
