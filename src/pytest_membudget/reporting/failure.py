"""The message of a failed test: the verdict first, then what holds the memory."""

from __future__ import annotations

from collections.abc import Sequence

from ..memory_report import Holder, MemoryReport
from ..results.comparison import versions_text
from ..results.test_result import TestResult
from ..units import gib_text
from .advice import advice_lines
from .agreement import figures_table
from .causes import change_lines, signed_size

#: Most holders that a failure lists; report.json has more.
_TOP = 10
_WIDTH = 20
#: Most ranks whose totals are listed, the largest first.
_RANKS = 16
_ANALYTIC = "analytic"
_SCENARIO_FILES = (".yaml", ".yml")
#: Arguments of the mark that are not shown.
_DEFAULTS = (("gpus", 1), ("metric", "allocated"))


def failure_text(row: TestResult) -> str:
    """Why ``row``'s test fails, for a reader who did not write it."""
    lines = [row.reason_line]
    if row.verdict == "over" and row.reason_line != row.reason:
        lines.append(row.reason)
    if row.budget is not None:  # otherwise the reason names the mark and its line
        lines.append(f"{row.file}:{row.line}: {_budget_text(row)}")
    if row.details:
        lines += ["", row.details]
    estimate, measurement = row.estimate_of_verdict, row.worst_measurement
    lines += _since_base(row)
    if estimate is not None and (measurement is not None or row.scenario_figure is not None):
        lines += ["", *figures_table(row)]
        lines += _all_ranks(row.measurements, row.gpus) if row.scenario_figure is None else []
        lines += _holders(measurement or estimate)
    elif estimate is not None and (estimate.peak_bytes or estimate.host is not None):
        lines += ["", *_components(estimate, row.gpus, shows_host=_is_about_host(row))]
        lines += [*_all_ranks(row.own_estimates, row.gpus), *_machine(row), *_holders(estimate)]
        if estimate.host is not None and _is_about_host(row):
            lines += _holders(estimate.host, "In host memory:")
    if estimate is not None and (estimate.peak_bytes or estimate.host is not None):
        lines += _listed("Taken for granted", estimate.assumptions)
        lines += _listed("Not modelled", estimate.not_modelled)
        lines += advice_lines(row.advice)
    return "\n".join(lines)


def _since_base(row: TestResult) -> list[str]:
    """What has changed since the base; empty if that is not known."""
    comparison = row.comparison
    if comparison is None or comparison.base_bytes is None:
        return []
    growth_bytes, base_bytes = comparison.growth_bytes, comparison.base_bytes
    if not growth_bytes:
        return ["", f"It took {gib_text(base_bytes)} at the base too."]
    growth = signed_size(growth_bytes)
    versions = versions_text(comparison.distributions)
    since = f"Since the base {growth}, from {gib_text(base_bytes)}{versions and f', with {versions}'}:"
    return ["", since, *change_lines(comparison)]


def _budget_text(row: TestResult) -> str:
    """The budget as it is written in the mark or the scenario file."""
    budget = row.budget.to_json() if row.budget is not None else {}
    written = [pair for pair in budget.items() if pair[1] and pair not in _DEFAULTS]
    if row.file.endswith(_SCENARIO_FILES):
        return ", ".join(f"{name}: {value}" for name, value in written)
    return f"mem_budget({', '.join(f'{name}={value!r}' for name, value in written)})"


def _is_about_host(row: TestResult) -> bool:
    """Whether the budget limits host memory; otherwise host memory is shown in one line."""
    return row.budget is not None and row.budget.host_gib is not None


def _components(estimate: MemoryReport, gpus: int, *, shows_host: bool) -> list[str]:
    """The components of one rank; with ``shows_host``, those of its host memory in a second column."""
    total, host = estimate.peak_bytes, estimate.host if shows_host else None
    of_all = f" of {gpus}" if gpus > 1 else ""
    head = f"Peak {estimate.metric} ({estimate.kind}, rank {estimate.rank}{of_all}):"
    lines = [f"{head:<{_WIDTH + 25}}{'host memory':>12}" if host is not None else head]
    held_by_host = host.components if host is not None else {}
    for name, size in estimate.components.items():
        if size or held_by_host.get(name):
            share = f"{size / total:6.1%}" if total else " " * 6
            held = f"  {gib_text(held_by_host.get(name, 0)):>12}" if host is not None else ""
            lines.append(f"  {name:<{_WIDTH}} {gib_text(size):>12}  {share}{held}")
    held = f"{'':8}  {gib_text(host.peak_bytes):>12}" if host is not None else ""
    lines.append(f"  {'= ' + estimate.metric:<{_WIDTH}} {gib_text(total):>12}{held}")
    if estimate.host is not None and not shows_host:
        lines.append(f"  and on the host, at its own peak {gib_text(estimate.host.peak_bytes):>4}")
    return lines


def _all_ranks(reports: Sequence[MemoryReport], gpus: int) -> list[str]:
    """The totals of all ranks that have a figure, the largest first."""
    if gpus == 1:
        return []
    largest = sorted(reports, key=lambda report: (-report.peak_bytes, report.rank))
    lines = ["", f"Ranks by their peaks ({len(reports)} of {gpus} {reports[0].kind}):"]
    for report in largest[:_RANKS]:
        host = report.host
        held = f"  host {gib_text(host.peak_bytes)}" if host is not None else ""
        name = f"rank {report.rank}"
        lines.append(f"  {name:<{_WIDTH}} {gib_text(report.peak_bytes):>12}{held}")
    rest = largest[_RANKS:]
    if rest:
        lines.append(f"  and {len(rest)} more, {gib_text(rest[0].peak_bytes)} and less")
    return lines


def _machine(row: TestResult) -> list[str]:
    if row.host_bytes is None or row.gpus == 1:
        return []
    return [
        "",
        f"Host memory of the machine that holds most of it, all its ranks: {gib_text(row.host_bytes)}",
    ]


def _holders(estimate: MemoryReport, title: str = "What holds it:") -> list[str]:
    lines = ["", title] if estimate.holders else []
    for holder in estimate.holders[:_TOP]:
        if estimate.kind == _ANALYTIC:
            lines.append(_term(holder))
            continue
        module = f" {holder.module}" if holder.module else ""
        times = f" x{holder.count}" if holder.count > 1 else ""
        place = holder.location or "no line of Python"
        lines.append(
            f"  {gib_text(holder.bytes):>12}  {holder.component}{module}{times}  {place}  {holder.operator}"
        )
    rest = estimate.holders[_TOP:]
    if rest:
        lines.append(f"  {gib_text(sum(holder.bytes for holder in rest)):>12}  in {len(rest)} more")
    return lines


def _term(holder: Holder) -> str:
    """A term of an analytic figure: its bytes, formula and source."""
    times = f" x{holder.count}" if holder.count > 1 else ""
    formula = f" = {holder.operator}" if holder.operator else ""
    source = f"  ({holder.location})" if holder.location else ""
    size = gib_text(holder.bytes)
    return f"  {size:>12}  {holder.component}  {holder.module}{times}{formula}{source}"


def _listed(title: str, texts: Sequence[str]) -> list[str]:
    return ["", f"{title}:", *(f"  {text}" for text in texts)] if texts else []
