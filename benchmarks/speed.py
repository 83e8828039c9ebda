"""How fast it is, as ratios of runs beside each other; writes docs/speed.md.

    python -m benchmarks.speed [--rounds 3] [--layers 32] [--only trace] [--page docs/speed.md]

Exits with 1 where a figure is above its target.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.speed_cases import CASES, Effort, Figure

_PAGE = Path(__file__).parents[1] / "docs" / "speed.md"
_HEAD = """# How fast it is

Two runs beside each other in each row, in turn on one machine, and the ratio of their medians: seconds differ
from machine to machine, ratios little. `python -m tox -e speed` makes this page.

"""
_BELOW = """
- **Unused** it imports nothing heavy: neither torch nor yaml nor tabulate, with or without marks.
- **The worker** that estimates is started for the first estimate: a session without budgets, or with all
  of them known from before, starts none.
- **A trace** makes the keys of fake tensors' own cache of results itself, with the same meaning (torch 2.13
  and 2.15; with other releases torch's are used).
- **Tests at once**: as many as there are processors, with as much free memory as they need; `processes = 1`
  in `[tool.membudget]` turns it off. Figures, their order and failures are the same: what is no figure is run
  again alone. Workers of pytest-xdist share the processors.
- **Unchanged tests** are [not estimated again](cache.md).
- **Analytic budgets** share what several have in common: a layer's operators, a model's tensors, a whole job.
"""


def page_of(figures: Sequence[Figure], machine: str) -> str:
    """The page; ``machine``: what they were seen on."""
    from tabulate import tabulate

    rows = [
        (figure.what, _value(figure), f"at most {_number(figure.most, figure.unit)}", figure.how)
        for figure in figures
    ]
    table = tabulate(
        rows, ("what", "ratio or time", "target", "how"), tablefmt="github", disable_numparse=True
    )
    return f"{_HEAD}{table}\n\n{machine}\n{_BELOW}"


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


def main() -> int:
    """Run the cases and write the page; 1 if one is above its target."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--only", choices=[case.__name__ for case in CASES], action="append")
    parser.add_argument(
        "--page", type=Path, help="where to write the page; docs/speed.md if all cases are run"
    )
    arguments = parser.parse_args()
    effort = Effort(arguments.rounds, arguments.layers)
    figures: list[Figure] = []
    for case in CASES:
        if arguments.only and case.__name__ not in arguments.only:
            continue
        for figure in case(effort):
            figures.append(figure)
            print(f"{figure.what}: {_value(figure)} ({figure.how})", file=sys.stderr, flush=True)
    page = arguments.page or (None if arguments.only else _PAGE)
    if page is not None:
        page.write_text(page_of(figures, _machine()), encoding="utf-8")
    return int(any(figure.value > figure.most for figure in figures))


if __name__ == "__main__":
    raise SystemExit(main())
