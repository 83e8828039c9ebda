"""The message of a failed test: the verdict first, then what holds the memory."""

import re
from collections.abc import Iterable, Iterator, Sequence

from ...caveats import DRAWN, GIVEN, READ, SIZE_READ, WORST_CASE, outcomes_once, texts_of
from ...memory_report import Holder, MemoryReport
from ...names import MARKER
from ...results.advice import Advice
from ...results.comparison import versions_text
from ...results.test_result import TestResult
from ...units import gib_text, signed_size
from ...user_input.nodes import PYTHON
from ..causes import cause_lines, change_lines, enough, staying, title_of
from .fitting import folded

#: Most holders that a failure lists; report.json has more.
_TOP = 10
_WIDTH = 20
#: Where what to write begins in the list of trials, right of two sizes.
_COLUMN = 26
#: Most ranks whose totals are listed, the largest first.
_RANKS = 16
#: As texts call kinds of figures that they have no better word for.
_KINDS = {"traced": "estimated"}
#: Caveats about values assumed in place of unknown data.
_OF_DATA = (READ, SIZE_READ, WORST_CASE, GIVEN, DRAWN)
#: ``test_a.py:14``, the user's own line, with the library's line that it leads to where that is another.
_PLACED = re.compile(r"(?P<place>[^\s:]+:\d+(?: \([^\s:]+:\d+\))?):? (?P<what>.+)", re.DOTALL)
#: Texts of caveats that are listed; report.json has all.
_CAVEATS = 8
#: Arguments of the mark that are not shown.
_DEFAULTS = (("gpus", 1), ("metric", "allocated"))


def failure_text(row: TestResult, width: int = 80) -> str:
    """Why ``row``'s test fails, for a reader who did not write it; ``width`` of the terminal."""
    head = [row.reason_line]
    if row.verdict == "over" and row.reason_line != row.reason:
        head.append(row.reason)
    if row.budget is not None:  # otherwise the reason names the mark and its line
        head.append(f"{row.location}: {_budget_text(row)}")
    details = ["", *row.details.splitlines()] if row.details else []
    if not row.raised:  # otherwise a traceback: the user's own lines
        details = [*folded(details, width)]
    rest = [*_since_base(row, width), *(_assumed_before(row) if row.raised else _figures(row, width))]
    return "\n".join([*folded(head, width), *details, *folded(rest, width)])


def _assumed_before(row: TestResult) -> list[str]:
    """The values assumed of unknown data before the body raised, which may be the cause; and the remedy."""
    estimate = row.estimate_of_verdict
    assumed = [one for one in estimate.caveats if one.cause in _OF_DATA] if estimate is not None else []
    lines = _caveat_lines(one.text for one in assumed)
    remedies = [one.cause.remedy for one in assumed if one.cause.remedy]
    to_do = _caveat_lines(f"if it should be another, {remedy}" for remedy in remedies)
    return _listed("Assumed of the data before it raised", [*lines, *to_do])


def _figures(row: TestResult, width: int) -> list[str]:
    """The components, the largest holders, the caveats and what would reduce the figure."""
    estimate, measurement = row.estimate_of_verdict, row.worst_measurement
    if estimate is None or not (measurement or estimate.peak_bytes or estimate.host):
        return []
    if measurement is not None:
        lines = ["", *figures_table(row), *_all_ranks(row.measurements, row.gpus)]
        lines += _holders(measurement.holders, width)
    else:
        lines = ["", *_components(estimate, row.gpus, shows_host=_is_about_host(row))]
        lines += _all_ranks(row.estimates, row.gpus)
        if row.host_bytes is not None and row.gpus > 1:
            held = gib_text(row.host_bytes)
            lines += ["", f"Host memory of the machine that holds most of it, all its ranks: {held}"]
        over = row.over
        if over is not None and over.argument == "components":
            lines += _holders(over.holders, width, f"What holds {over.of}:")
        else:
            lines += _holders(estimate.holders, width)
        if estimate.host is not None and _is_about_host(row):
            lines += _holders(estimate.host.holders, width, "In host memory:")
    for title, rows, rest in staying(measurement or estimate):
        lines += ["", f"{title}:", *cause_lines(rows, width), *([f"  {rest}"] if rest else [])]
    caveats = [*filter(row.concerns, estimate.caveats)]
    lines += _listed("Taken for granted", _caveat_lines(texts_of(caveats, missing=False)))
    lines += _listed("Not modelled", _caveat_lines(texts_of(caveats, missing=True)))
    return [*lines, *_advice(row.advice, width)]


def _advice(advice: Advice | None, width: int) -> list[str]:
    """The trials, the largest saving first; empty if there are none."""
    if advice is None or not advice.trials:
        return []
    trials = [
        f"  {gib_text(size):>12}  {signed_size(size - advice.bytes):>10}  {write}{enough(size, advice)}"
        for write, size in advice.tried.items()
    ]
    lines = [*folded(trials, width, _COLUMN)]
    if any("steps." in write for write in advice.tried):
        lines.append("  steps is pytest_membudget.steps")
    if advice.untried:
        untried = ", ".join(advice.untried)
        lines += folded([f"  Not tried, the time limit was reached: {untried}"], width)
    return ["", f"{title_of(advice)}:", *lines]


def _since_base(row: TestResult, width: int) -> list[str]:
    """What has changed since the base; empty if that is not known."""
    since = row.since_base
    if since is None:
        return []
    base = gib_text(since.base_bytes or 0)
    if not since.growth_bytes:
        return ["", f"It took {base} at the base too."]
    versions = versions_text(since.distributions)
    growth = f"{signed_size(since.growth_bytes)}, from {base}{versions and f', with {versions}'}"
    lines = change_lines(since, width)
    return ["", f"Since the base {growth}{':' if lines else '.'}", *lines]


def _budget_text(row: TestResult) -> str:
    """The budget as it is written in the mark or in the YAML file."""
    if row.selected:
        return "no mark; --membudget=all or [tool.membudget] tests selects it"
    budget, syntax = row.budget.to_json() if row.budget is not None else {}, row.syntax
    pairs = [pair for pair in budget.items() if pair[1] and pair not in _DEFAULTS]
    written = ", ".join(syntax.pair.format(name, syntax.scalar(value)) for name, value in pairs)
    return f"{MARKER}({written})" if syntax is PYTHON else written or "no limit"


def _is_about_host(row: TestResult) -> bool:
    """Whether the budget limits host memory; otherwise host memory is shown in one line."""
    return row.budget is not None and row.budget.host_gib is not None


def figures_table(row: TestResult) -> list[str]:
    """Estimate and measurement of ``row`` by component, with their ratio."""
    both = row.estimate_and_measurement
    if both is None:
        return []
    estimate, measured = both
    other = f", estimated on rank {estimate.rank}" if estimate.rank != measured.rank else ""
    names = dict.fromkeys([*measured.components, *estimate.components])
    sizes = {name: (estimate.components.get(name, 0), measured.components.get(name, 0)) for name in names}
    sizes[f"= {_total_name(measured)}"] = (estimate.peak_bytes, measured.peak_bytes)
    return [
        _peak_title(measured.rank, row.gpus, other),
        _line("", f"{'estimate':>12}", f" {'measured':>12}{'ratio':>7}"),
        *(_sizes_line(name, *of_name) for name, of_name in sizes.items() if any(of_name)),
    ]


def _sizes_line(name: str, estimated: int, measured: int) -> str:
    ratio = f"{estimated / measured:.3f}" if measured else ""
    return _line(name, f"{gib_text(estimated):>12}", f" {gib_text(measured):>12}{ratio:>7}")


def _components(estimate: MemoryReport, gpus: int, *, shows_host: bool) -> list[str]:
    """The components of one rank; with ``shows_host``, those of its host memory in a second column."""
    total, host = estimate.peak_bytes, estimate.host if shows_host else None
    head = _peak_title(estimate.rank, gpus, "" if estimate.kind in _KINDS else f" ({estimate.kind})")
    lines = [f"{head:<{_WIDTH + 25}}{'host memory':>12}" if host is not None else head]
    held_by_host = host.components if host is not None else {}
    for name, size in estimate.components.items():
        if size or held_by_host.get(name):
            share = f"{size / total:8.1%}" if total else " " * 8
            held = f"{gib_text(held_by_host.get(name, 0)):>14}" if host is not None else ""
            lines.append(_line(name, f"{gib_text(size):>12}", share, held))
    held = f"{gib_text(host.peak_bytes):>22}" if host is not None else ""
    lines.append(_line(f"= {_total_name(estimate)}", f"{gib_text(total):>12}", held))
    if estimate.host is not None and not shows_host:
        lines.append(f"  and on the host, at its own peak {gib_text(estimate.host.peak_bytes):>4}")
    return lines


def _line(name: str, *cells: str) -> str:
    """A line of a table: a component or a rank, and its ``cells`` as wide as their columns."""
    return f"  {name:<{_WIDTH}} {''.join(cells)}".rstrip()


def _peak_title(rank: int, gpus: int, more: str) -> str:
    """The heading of a table of components: the rank, where there are several, and ``more``."""
    of_rank = f" of rank {rank} of {gpus}" if gpus > 1 else ""
    return f"Peak memory{of_rank}{more}:"


def _total_name(report: MemoryReport) -> str:
    """The name of the sum of all components: the metric, where it is not that of most tests."""
    return "total" if report.metric == "allocated" else report.metric


def _all_ranks(reports: Sequence[MemoryReport], gpus: int) -> list[str]:
    """The totals of all ranks that have a figure, the largest first."""
    if gpus == 1:
        return []
    largest = sorted(reports, key=lambda report: (-report.peak_bytes, report.rank))
    kind = _KINDS.get(reports[0].kind, reports[0].kind)
    lines = ["", f"Ranks by their peaks ({len(reports)} of {gpus} {kind}):"]
    for report in largest[:_RANKS]:
        host = report.host
        held = f"  host {gib_text(host.peak_bytes)}" if host is not None else ""
        lines.append(_line(f"rank {report.rank}", f"{gib_text(report.peak_bytes):>12}", held))
    rest = largest[_RANKS:]
    if rest:
        lines.append(f"  and {len(rest)} more, {gib_text(rest[0].peak_bytes)} and less")
    return lines


def _holders(holders: Sequence[Holder], width: int, title: str = "What holds it:") -> list[str]:
    if not holders:
        return []
    shown, rest = holders[:_TOP], holders[_TOP:]
    others = f"  {gib_text(sum(holder.bytes for holder in rest))}  in {len(rest)} more"
    return ["", title, *cause_lines(shown, width), *([others] if rest else [])]


def _listed(title: str, lines: Iterable[str]) -> list[str]:
    listed = [*lines]
    return ["", f"{title}:", *listed] if listed else []


def _caveat_lines(texts: Iterable[str]) -> Iterator[str]:
    """A line for each of ``texts``; texts that differ in their places alone share one."""
    by_text: dict[str, list[str]] = {}
    for text in outcomes_once(texts):
        match = _PLACED.fullmatch(text)
        by_text.setdefault(match["what"] if match is not None else text, []).append(text)
    for what, some in list(by_text.items())[:_CAVEATS]:
        match = _PLACED.fullmatch(some[0])
        rest = len(some) - 1
        places = f"{match['place']} and {rest} more line{'s' if rest > 1 else ''}: " if match and rest else ""
        yield f"  {places + what if places else some[0]}"
    if len(by_text) > _CAVEATS:
        yield f"  and {len(by_text) - _CAVEATS} more; report.json has all"
