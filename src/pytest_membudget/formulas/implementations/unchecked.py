"""Notes on layers that are computed by the nearest known rule and were not compared with a trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..job import Job
from ..model import Experts
from .styles import family_of

#: Families whose layers have operators that no tape here has.
_NEAREST: Final = frozenset({"GPTJ", "GptOss", "Llama4", "Llama4Text", "Roberta", "MT5"})


def unchecked(job: Job) -> tuple[str, ...]:
    """One line each; for Megatron, whose layers have been compared with published runs, its arguments."""
    if job.implementation == "megatron":
        return job.megatron.not_modelled if job.megatron is not None else ()
    return tuple(_found(job))


def _found(job: Job) -> Iterator[str]:
    family = family_of(job.model.architecture)
    if job.implementation == "transformers" and family in _NEAREST:
        yield f"{family}'s layers: computed by the nearest family's rules, not compared with a trace"
    adapter = job.adapter
    if adapter is not None and adapter.is_dora:
        yield "DoRA: the norms of adapted weights, made in every forward"
    if adapter is not None and adapter.base == "int8":
        yield "Linear8bitLt: its outliers' columns"
    if adapter is not None and _has_experts(job):
        yield "adapters on experts' stacked weights: what they keep"
    if job.degrees.context_parallel_degree > 1 and job.task == "train":
        yield "context parallelism: keys and values of other ranks while attention runs"
    if job.loss.kind == "fused":
        yield "the fused loss: Liger's chunks; other kernels take other ones"


def _has_experts(job: Job) -> bool:
    return any(isinstance(layer.feed_forward, Experts) for layer, _ in job.model.decoder.groups)
