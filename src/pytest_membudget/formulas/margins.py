"""How far a figure may be off: the worst errors on published peaks, by kind of job.

``tests/formulas/test_published_jobs.py`` computes them from the cases; docs/accuracy.md#formulas has the
table.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ..scenarios.job import Job
from .sources import decoder_of


@dataclass(frozen=True, slots=True)
class Margin:
    """How much more than the figure a job of one kind may take, as a share of the figure."""

    allocated: float
    reserved: float
    """Of what is reserved, and of the device, whose figure is that of allocated memory too."""


#: Where no reserved peak of a kind is published: the worst of all kinds.
_NO_RESERVED: Final = 0.48
MARGINS: Final[Mapping[str, Margin]] = {
    "one GPU": Margin(0.10, 0.12),
    "adapters": Margin(0.30, _NO_RESERVED),
    # where the source says reserved alone that is taken, and allocated was less
    "sharded": Margin(0.31, 0.48),
    "Megatron-LM": Margin(0.12, _NO_RESERVED),
    "mixture of experts": Margin(0.10, _NO_RESERVED),
    # the figures are all but one too high: as far as that
    "inference": Margin(0.11, 0.11),
}


def margin_of(job: Job, metric: str) -> float:
    """The largest of the margins of the kinds that ``job`` is of."""
    found = [MARGINS[kind] for kind in kinds_of(job)]
    return max(one.allocated if metric == "allocated" else one.reserved for one in found)


def kinds_of(job: Job) -> Iterator[str]:
    """The kinds of ``job``; a distillation, of which no peak is published, counts with the least known."""
    is_megatron = job.model.source == "megatron"
    if job.generation is not None:
        yield "inference"
    elif is_megatron:
        yield "Megatron-LM"
    elif job.degrees.gpus > 1 or job.teacher is not None or job.offload:
        yield "sharded"
    else:
        yield "one GPU"
    if job.adapter is not None:
        yield "adapters"
    if any(layer.experts for layer in decoder_of(job.model).layers):
        yield "mixture of experts" if is_megatron else "sharded"
