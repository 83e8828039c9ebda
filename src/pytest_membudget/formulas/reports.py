"""From a rank's moments to its MemoryReport."""

from .. import components
from ..caveats import HOW, Caveat
from ..hardware.gpus import find_gpu
from ..memory_report import MemoryReport
from ..scenarios.job import Job
from .margins import kinds_of, margin_of
from .moments import Components
from .peaks import RankFigure, figures_of

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
