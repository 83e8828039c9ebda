"""Measure speed as ratios of two runs on one machine.

    python -m benchmarks.speed [--rounds 3] [--page FILE]
    python -m benchmarks.speed --only large_sessions     # one case; written nowhere but to --page
    python -m benchmarks.speed --only-kept      # run nothing: pages from the kept results

The figures are kept in ``benchmarks/results/speed.json``. The long page, which says how each figure was
measured, is a build artefact (default ``build/reports/speed.md``); the summary in ``docs/accuracy.md`` is
written between two markers. Exits with 1 where a figure is above its target.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.pages import write_pages
from benchmarks.sessions import SESSIONS
from benchmarks.speed_cases import CASES, Figure

#: The figures of the last whole run: the pages are made of them.
KEPT = Path(__file__).parent / "results" / "speed.json"
_HEAD = """# Speed

Each row compares two runs, in turn on one machine, by the ratio of their medians, or by what the first takes
beyond the other: seconds differ from machine to machine, ratios differ little. `python -m tox -e speed`
measures them again.

"""


def page_of(figures: Sequence[Figure], machine: str) -> str:
    """The long page; ``machine``: what they were measured on."""
    return f"{_HEAD}{_table(figures, has_how=True)}\n\n{machine}\n"


def summary_of(figures: Sequence[Figure], machine: str) -> str:
    """The summary in the docs: the figures, without how each was measured."""
    return f"{_table(figures, has_how=False)}\n\n{machine}\n"


def _table(figures: Sequence[Figure], *, has_how: bool) -> str:
    columns = ("what", "ratio or time", "target", "how")[: 4 if has_how else 3]
    rows = [columns, ("---",) * len(columns), *(_cells(figure)[: len(columns)] for figure in figures)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cells(figure: Figure) -> tuple[str, ...]:
    return figure.what, _value(figure), f"at most {_number(figure.most, figure.unit)}", figure.how


def read_kept(path: Path = KEPT) -> tuple[list[Figure], str]:
    """The kept figures, and what they were measured on."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return [Figure(**figure) for figure in content["figures"]], content["machine"]


def write_kept(figures: Sequence[Figure], machine: str, path: Path = KEPT) -> None:
    """Keep the figures of a whole run, in place of an earlier one's."""
    content = {"machine": machine, "figures": [dataclasses.asdict(figure) for figure in figures]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _value(figure: Figure) -> str:
    text = _number(figure.value, figure.unit)
    return text if figure.value <= figure.most else f"**{text}**"


def _number(value: float, unit: str) -> str:
    return f"{value:.2f}" if not unit else f"{value:.1f} {unit}"


def _machine() -> str:
    import torch

    cores = len(os.sched_getaffinity(0))
    busy = os.getloadavg()[0]
    return (
        f"Python {platform.python_version()}, torch {torch.__version__}, {platform.system()}, {cores} cores; "
        f"the machine had other work meanwhile (load {busy:.0f} at the end)."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases and write the pages; 1 if a figure is above its target."""
    options = _options(arguments)
    if options.only_kept:
        figures, machine = read_kept()
        write_pages("speed", page_of(figures, machine), summary_of(figures, machine), options.page)
        return _status(figures)
    figures = _run(options)
    machine = _machine()
    if not options.only:
        write_kept(figures, machine)
        write_pages("speed", page_of(figures, machine), summary_of(figures, machine), options.page)
    elif options.page:
        options.page.write_text(page_of(figures, machine), encoding="utf-8")
    return _status(figures)


def _options(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=[case.__name__ for case in (*SESSIONS, *CASES)], action="append")
    parser.add_argument("--only-kept", action="store_true", help="run nothing: pages from the kept results")
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="the long page (default build/reports/speed.md)"
    )
    return parser.parse_args(arguments)


def _run(options: Any) -> list[Figure]:
    figures: list[Figure] = []
    for case in (*SESSIONS, *CASES):
        if options.only and case.__name__ not in options.only:
            continue
        for figure in case(options.rounds):
            figures.append(figure)
            print(f"{figure.what}: {_value(figure)} ({figure.how})", file=sys.stderr, flush=True)
    return figures


def _status(figures: Sequence[Figure]) -> int:
    return int(any(figure.value > figure.most for figure in figures))


if __name__ == "__main__":
    raise SystemExit(main())
