"""A rank's moments as a MemoryReport, and how far off that may be: the worst errors on published peaks.

``tests/formulas/test_published_jobs.py`` has the cases, and docs/accuracy.md#formulas the table.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from .. import components
from ..caveats import HOW, Caveat
from ..hardware.gpus import find_gpu
from ..memory_report import MemoryReport
from ..scenarios.job import Job
from .generation import Components
from .peaks import RankFigure, figures_of
from .sources import decoder_of

#: What ``MemoryReport.kind`` says of arithmetic.
ANALYTIC = "analytic"


def reports_of(job: Job, metric: str, gpu: str | None) -> tuple[MemoryReport, ...]:
    """A report for each pipeline stage of ``job``. ``gpu``: the card whose CUDA context the device's metric
    has.

    Raises ``UsageMistake`` where there is no arithmetic for the job.
    """
    margin, kinds = margin_of(job, metric), " and ".join(dict.fromkeys(kinds_of(job)))
    context_bytes = find_gpu(gpu).context_bytes if gpu is not None else 0
    return tuple(_report(figure, metric, context_bytes, margin, kinds) for figure in figures_of(job))


def _report(figure: RankFigure, metric: str, context_bytes: int, margin: float, kinds: str) -> MemoryReport:
    peak = figure.peak
    sums = _whole(peak.components)
    size_bytes = sum(sums.values())
    if metric == "device":
        sums[components.CONTEXT] = context_bytes
    lines = [
        f"by formulas: at {peak.name}; up to {margin:.0%} more was measured of published jobs ({kinds})",
    ]
    if figure.ranks > 1:
        lines.append(f"ranks {figure.rank} to {figure.rank + figure.ranks - 1} are identical")
    return MemoryReport(
        kind=ANALYTIC,
        metric=metric,
        peak={**dict.fromkeys(components.METRICS, size_bytes), "device": size_bytes + context_bytes},
        components=sums,
        rank=figure.rank,
        host=_host(figure) if any(figure.host.values()) else None,
        caveats=tuple(Caveat(HOW, line) for line in lines),
        margin=margin,
    )


def _whole(sizes: Components) -> dict[str, int]:
    return dict.fromkeys(components.COMPONENTS, 0) | {name: round(size) for name, size in sizes.items()}


def _host(figure: RankFigure) -> MemoryReport:
    sums = _whole(figure.host)
    peak = dict.fromkeys(components.METRICS, sum(sums.values()))
    return MemoryReport(ANALYTIC, "allocated", peak, sums, rank=figure.rank)


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
