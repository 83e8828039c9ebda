"""What a scenario by formulas may not say: fields that the arithmetic does not read, and layouts that cannot
be.
"""

from collections.abc import Iterator
from typing import Final

from ..errors import UsageMistake
from ..scenarios.job import Job
from .decoder import Decoder
from .sources import decoder_of

#: Fields, those of a table as ``table.field``.
NOT_READ: Final = ("environment", "optimizer.clips_gradients", "method.dropout")


def mistakes_in(job: Job) -> Iterator[tuple[str, str]]:
    """Fields with what is wrong with them and what to write instead."""
    try:
        decoder = decoder_of(job.model)
    except UsageMistake as error:
        yield "model", str(error)
        return
    yield from of_the_layout(job, decoder.shape.heads, len(decoder.layers))
    yield from _of_the_experts(job, decoder)
    if job.teacher is not None:
        try:
            vocab = decoder_of(job.teacher).shape.vocab
        except UsageMistake as error:
            yield "teacher", str(error)
        else:
            if vocab != decoder.shape.vocab:
                what = f"its vocabulary is {vocab}, the model's {decoder.shape.vocab}"
                yield "teacher", f"{what}: their logits cannot be compared"


def of_the_layout(job: Job, heads: int, layers: int | None = None) -> Iterator[tuple[str, str]]:
    """What cannot be split as ``job`` does: so many ``heads`` and, where they are known, ``layers``."""
    degrees = job.degrees
    if heads % degrees.tensor_parallel_degree:
        yield "tensor_parallel_degree", f"{degrees.tensor_parallel_degree} does not divide the {heads} heads"
    stages = degrees.pipeline_parallel_degree * degrees.virtual_stages
    if layers is not None and stages > layers:
        yield "pipeline_parallel_degree", f"{stages} stages, and the model has {layers} layers"


def _of_the_experts(job: Job, decoder: Decoder) -> Iterator[tuple[str, str]]:
    degree = job.degrees.expert_parallel_degree
    count = decoder.shape.experts
    if degree > 1 and not count:
        yield "expert_parallel_degree", f"{degree}, and the model has no experts"
        return
    if count % degree:
        yield "expert_parallel_degree", f"{degree} does not divide the {count} experts"
    ranks = job.degrees.gpus // job.degrees.pipeline_parallel_degree
    if ranks % degree:
        yield "expert_parallel_degree", f"{degree} does not divide the {ranks} ranks of a stage"
