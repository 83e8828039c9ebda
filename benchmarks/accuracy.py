"""Compare estimates with measured figures that others published, or with your own measurements.

    python -m benchmarks.accuracy                        # all published cases
    python -m benchmarks.accuracy --only-kept            # run nothing: pages from the kept results
    python -m benchmarks.accuracy --page FILE            # the long page goes there
    python -m benchmarks.accuracy --family attention     # some of the cases, to the screen
    python -m benchmarks.accuracy --family attention --case '*-s256-d32'    # those whose ids match
    python -m benchmarks.accuracy --results FOLDER       # keeps the runs there, and continues from them
    python -m benchmarks.accuracy --report report.json   # a report's estimates and its measurements
    python -m benchmarks.accuracy --report report.json --published figures.yaml
    python -m benchmarks.accuracy --captured             # the published cases, and the captured steps
    python -m benchmarks.accuracy --captured --family captured    # the captured steps alone, to the screen

The estimates are kept in ``benchmarks/results/accuracy.json``. The long page, with a row for each
case, is a build artefact (default ``build/reports/accuracy.md``); the summary in ``docs/accuracy.md`` is
written between two markers. Exits with 1 where a case has no figure, or is off by more than 1% and no cause
is named.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .accuracy_page import accuracy_page, accuracy_summary, case_table
from .accuracy_runs import CasesRun, cases_run
from .capture import MEASURED
from .captured_accuracy import CapturedAccuracy, captured_accuracy
from .comparison import EXPLAINED_BEYOND, Comparison, summarize, with_measured, with_published
from .kept_accuracy import KeptAccuracy, kept_of, read_kept, write_kept
from .pages import write_pages
from .published_figures import Published, read_published

_HERE = Path(__file__).parent
#: The family that is in no file: what --captured adds.
_CAPTURED = "captured"


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print, and write the pages; the exit status."""
    options = _options(arguments)
    try:
        published = _published(options)
        if options.only_kept and not options.results:
            return _write(options, read_kept(), published, CapturedAccuracy())
        run = _run(options, published)
        captured = _captured(options)
    except (OSError, ValueError) as error:
        print(f"accuracy: {error}", file=sys.stderr)
        return 2
    comparisons, troubles = _compared(options, run, published)
    every, all_troubles = [*comparisons, *captured.comparisons], [*troubles, *captured.troubles]
    if options.family == [_CAPTURED] and not every and not all_troubles:
        return 0  # said so already
    if not every:
        print("accuracy: there is nothing to compare:", *all_troubles[:10], sep="\n  ", file=sys.stderr)
        return 1
    if options.report or options.family:
        print(case_table(every), *captured.notes, sep="\n")
        return _conclude(every, all_troubles)
    kept = kept_of(run, comparisons, troubles)
    write_kept(kept)
    return _write(options, kept, published, captured)


def _write(
    options: Any, kept: KeptAccuracy, published: Sequence[Published], captured: CapturedAccuracy
) -> int:
    """The pages of what is kept; the exit status."""
    own = kept.comparisons(published)
    comparisons = [*own, *captured.comparisons]
    troubles = [*kept.troubles, *captured.troubles]
    left_out = [entry for entry in published if entry.not_recreated]
    page = accuracy_page(comparisons, left_out, troubles, kept.run(), captured.notes)
    write_pages("accuracy", page, accuracy_summary(own, kept.run()), options.page)
    return _conclude(comparisons, troubles)


def _options(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--family", action="append", help="a file of benchmarks/published, without .yaml, or captured"
    )
    parser.add_argument(
        "--case",
        action="append",
        metavar="PATTERN",
        help="cases of --family, by their ids as a shell would match",
    )
    parser.add_argument("--report", type=Path, help="compare this report.json instead of running the cases")
    parser.add_argument("--published", type=Path, help="measured figures for the tests of --report")
    parser.add_argument(
        "--captured", nargs="?", type=Path, const=MEASURED, metavar="DIR",
        help="add the steps that benchmarks.capture has measured (default benchmarks/measured)",
    )  # fmt: skip
    parser.add_argument(
        "--results", type=Path, metavar="FOLDER", help="where runs are kept; what lies there is not run again"
    )
    parser.add_argument(
        "--only-kept", action="store_true",
        help="run nothing: pages from the kept results, or from --results, whose missing families are named",
    )  # fmt: skip
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="the long page (default build/reports/accuracy.md)"
    )
    parser.add_argument("--processes", type=int, default=1, help="how many at once (needs pytest-xdist)")
    return parser.parse_args(arguments)


def _published(options: Any) -> list[Published]:
    if options.published:
        return read_published([options.published])
    files = sorted((_HERE / "published").glob("*.yaml"))
    if options.family:
        unknown = sorted(set(options.family) - {file.stem for file in files} - {_CAPTURED})
        if unknown:
            raise ValueError(f"--family {unknown[0]}: write one of {', '.join(file.stem for file in files)}")
        files = [file for file in files if file.stem in options.family]
    return _selected(read_published(files), options)


def _selected(published: list[Published], options: Any) -> list[Published]:
    """Those that ``--case`` asks for; all without it."""
    if not options.case:
        return published
    if not options.family:
        raise ValueError("--case selects among the cases of a family: add --family")
    found = {one: [entry for entry in published if fnmatch.fnmatch(entry.id, one)] for one in options.case}
    for pattern, entries in found.items():
        if not entries:
            raise ValueError(f"--case {pattern}: no case of {', '.join(options.family)} has such an id")
    asked = {entry.id for entries in found.values() for entry in entries}
    return [entry for entry in published if entry.id in asked]


def _run(options: Any, published: Sequence[Published]) -> CasesRun:
    """The given report, or a run of the cases."""
    if options.report:
        report = json.loads(options.report.read_text(encoding="utf-8"))
        return CasesRun(report["torch"], "", report["tests"])
    return cases_run(
        published,
        options.processes,
        options.results,
        only_kept=options.only_kept,
        selected=bool(options.case),
    )


def _compared(
    options: Any, run: CasesRun, published: Sequence[Published]
) -> tuple[list[Comparison], list[str]]:
    if options.report and not options.published:
        return with_measured(run.rows)
    ran = [entry for entry in published if entry.family not in run.not_run]
    comparisons, troubles = with_published(run.rows, ran)
    return comparisons, [*(f"{family}: not run" for family in run.not_run), *troubles]


def _captured(options: Any) -> CapturedAccuracy:
    """What was captured, estimated; nothing unless it is asked for."""
    if not options.captured and _CAPTURED not in (options.family or ()):
        return CapturedAccuracy()
    root = options.captured or MEASURED
    found = captured_accuracy(root)
    if not found.comparisons and not found.troubles:
        print(f"nothing is captured in {root}: python -m benchmarks.capture does, on a machine with a GPU")
    return found


def _conclude(comparisons: Sequence[Comparison], troubles: Sequence[str]) -> int:
    summary = summarize(comparisons)
    print(
        f"{summary.count} figures: median ratio {summary.median:.4f}, worst {summary.worst:.4f}; "
        f"under {summary.under:.0%}, equal {summary.equal:.0%}, over {summary.over:.0%}"
    )
    unexplained = [one for one in comparisons if one.is_unexplained]
    for one in unexplained:
        print(
            f"{one.case}, {one.metric}: {one.ratio:.4f}, off by more than {EXPLAINED_BEYOND:.0%}, "
            "and no cause is named"
        )
    for trouble in troubles:
        print(trouble)
    return 1 if unexplained or troubles else 0


if __name__ == "__main__":
    sys.exit(main())
