"""``membudget fit``: the largest value of a test's parameter, or an entry's field, that fits each card."""

import argparse
import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..budgets.verdict import OVER, UNDECIDED, WITHIN
from ..errors import UsageMistake
from ..hardware.gpus import find_gpu
from ..reporting.document import Document
from ..reporting.terminal.fitting import folded, terminal_width
from ..results.test_result import TestResult
from ..units import GIB, gib_text
from .fit_search import FAILS, FITS, TOO_LARGE, Point, Tried, Variation, conclusion, next_values
from .sessions import report_of_session
from .terminal import Subcommands, at_least_one, print_lines

#: The plugin of the sessions; importing it imports pytest.
_PLUGIN = f"{__package__}.fit_plugin"
_OUTCOMES = {WITHIN: FITS, OVER: TOO_LARGE, UNDECIDED: TOO_LARGE}
#: Exit status where for some card no value fits.
_NONE_FITS = 1
#: Most characters of a bar of all that the card can hold.
_BAR = 40


def add_to(commands: Subcommands) -> None:
    """Add the subcommand ``fit``."""
    parser = commands.add_parser(
        "fit",
        help="find the largest value of a test's parameter with which the test fits a card",
        description="Find the largest value of a test's parameter or fixture that fits a card.",
        epilog="What follows -- is pytest's.",
    )
    parser.set_defaults(run=_run, runs_pytest=True)
    parser.add_argument("test", metavar="TEST", help="as pytest has it: tests/test_step.py::test_step")
    parser.add_argument(
        "--vary",
        required=True,
        metavar="NAME",
        help="a parameter or fixture of the test; of an entry a field, or an argument of its script",
    )
    parser.add_argument(
        "--gpu", required=True, action="append", type=_card, metavar="NAME", help="a card; may be repeated"
    )
    parser.add_argument("--max", type=at_least_one, default=65536, help="the largest value (%(default)s)")
    parser.add_argument(
        "--step", type=at_least_one, default=1, help="try multiples of this alone (%(default)s)"
    )
    parser.add_argument(
        "--out", type=_output, help="write the values to a .csv file, or a chart to a .html file"
    )


def _card(text: str) -> str:
    try:
        return find_gpu(text).name
    except UsageMistake as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _output(text: str) -> Path:
    if not text.endswith((".csv", ".html")):
        raise argparse.ArgumentTypeError(f"{text!r} ends neither in .csv nor in .html")
    return Path(text)


def _run(options: argparse.Namespace) -> int:
    if options.step > options.max:
        raise UsageMistake(
            f"--step={options.step} --max={options.max}: no multiple of the step is left to try"
        )
    cards: dict[str, dict[int, Tried]] = {gpu: {} for gpu in options.gpu}
    while points := [
        Point(value, gpu)
        for gpu, tried in cards.items()
        for value in next_values(tried, options.step, options.max)
    ]:
        print_lines([f"{options.vary}: {', '.join(point.id for point in points)}"])
        _try(options, points, cards)
    for gpu, tried in cards.items():
        print_lines(result_lines(options.vary, gpu, tried, options.max, terminal_width()))
    if options.out is not None:
        _write(options.out, options.vary, cards)
    return _NONE_FITS if any(conclusion(tried).largest is None for tried in cards.values()) else 0


def _try(options: argparse.Namespace, points: Sequence[Point], cards: Mapping[str, dict[int, Tried]]) -> None:
    test, _, variant = options.test.partition("[")
    varied = Variation(options.vary, variant.removesuffix("]"), tuple(points))
    arguments = ["-p", _PLUGIN, "--membudget-measure=off", test, *options.pytest_arguments]
    found = tried_in(report_of_session(arguments, varied.variables()), points)
    for point in points:
        cards[point.gpu][point.value] = found[point]


def tried_in(document: Document, points: Sequence[Point]) -> dict[Point, Tried]:
    """The outcomes of ``points``. Raises ``UsageMistake`` if one was not estimated."""
    ends = {point: (f"-{point.id}]", f"[{point.id}]") for point in points}
    rows = {point: row for point in points for row in document.tests if row.nodeid.endswith(ends[point])}
    missing = [point.id for point in points if point not in rows]
    if missing:
        raise UsageMistake(f"the session has estimated nothing for {', '.join(missing)}")
    return {point: _tried(point.value, row) for point, row in rows.items()}


def _tried(value: int, row: TestResult) -> Tried:
    outcome = _OUTCOMES.get(row.verdict, FAILS)
    reason = row.reason.partition("\n")[0]
    figure = row.worst_estimate if outcome == FITS else None
    if figure is None:
        return Tried(value, outcome, reason=reason)
    return Tried(value, outcome, figure.peak["allocated"], figure.peak["reserved"], reason)


def _write(path: Path, name: str, cards: Mapping[str, Mapping[int, Tried]]) -> None:
    try:
        text = csv_text(name, cards) if path.suffix == ".csv" else chart_of(name, cards)
        path.write_text(text, encoding="utf-8")
    except ImportError:
        raise UsageMistake(f"{path}: a chart needs plotly: pip install 'pytest-membudget[html]'") from None
    except OSError as error:
        raise UsageMistake(f"{path}: cannot be written: {error.strerror}") from None


def result_lines(name: str, gpu: str, tried: Mapping[int, Tried], most: int, columns: int) -> list[str]:
    """The verdict for one card, then a line for each value, with a bar that fits ``columns``."""
    usable_bytes = find_gpu(gpu).usable_bytes
    lines = ["", f"{gpu} ({gib_text(usable_bytes)} without the CUDA context): {_verdict(name, tried, most)}"]
    width = max(len(name), *(len(str(value)) for value in tried))
    head = f"  {name:>{width}}  {'allocated':>10}  {'reserved':>10}"
    lines.append(head)
    column = len(f"{head}  ")
    bar = max(1, min(_BAR, columns - column))
    refusal = f"does not fit on {gpu}: "
    found = (_line(tried[value], width, usable_bytes, bar, refusal) for value in sorted(tried))
    return [*lines, *folded(found, columns, column)]


def _verdict(name: str, tried: Mapping[int, Tried], most: int) -> str:
    found = conclusion(tried)
    if found.largest is None:
        assert found.limit is not None
        what = "the test fails" if found.limit.outcome == FAILS else "does not fit"
        return f"{name}={found.limit.value} {what}, and no smaller value was tried"
    text = f"{name}={found.largest} is the largest that fits"
    if found.limit is None:
        text = f"{name}={found.largest} fits, and no value above --max={most} was tried"
    elif found.limit.outcome == FAILS:
        text += f"; memory is not the limit: with {found.limit.value} the test fails"
    if found.gaps:
        text += f"; not every smaller value fits: {', '.join(map(str, found.gaps))}"
    return text


def _line(one: Tried, width: int, usable_bytes: int, bar: int, refusal: str) -> str:
    figures = [gib_text(size) if size is not None else "" for size in (one.peak_bytes, one.reserved_bytes)]
    start = f"  {one.value:>{width}}  {figures[0]:>10}  {figures[1]:>10}"
    if one.outcome == FITS and one.peak_bytes is not None:
        return f"{start}  {'#' * round(bar * one.peak_bytes / usable_bytes)}"
    word = {TOO_LARGE: "does not fit", FAILS: "fails"}[one.outcome]
    reason = one.reason.removeprefix(refusal).partition(";")[0].partition(" GPU 0 ")[0]  # PyTorch's text
    return f"{start}  {word}: {reason}"


def csv_text(name: str, cards: Mapping[str, Mapping[int, Tried]]) -> str:
    """A row for each value and card."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["gpu", name, "outcome", "allocated_bytes", "reserved_bytes", "reason"])
    for gpu, tried in cards.items():
        for value in sorted(tried):
            one = tried[value]
            writer.writerow([gpu, value, one.outcome, one.peak_bytes, one.reserved_bytes, one.reason])
    return file.getvalue()


def chart_of(name: str, cards: Mapping[str, Mapping[int, Tried]]) -> str:
    """One HTML file with the curves. Raises ``ImportError`` without plotly."""
    import plotly.graph_objects as graph

    figure = graph.Figure()
    for gpu, tried in cards.items():
        fitting = [tried[value] for value in sorted(tried) if tried[value].outcome == FITS]
        sizes = [(one.peak_bytes or 0) / GIB for one in fitting]
        figure.add_scatter(x=[one.value for one in fitting], y=sizes, name=gpu, mode="lines+markers")
        usable = find_gpu(gpu).usable_bytes / GIB
        figure.add_hline(y=usable, line_dash="dash", annotation_text=f"{gpu} can hold {usable:.1f} GiB")
    figure.update_layout(xaxis_title=name, yaxis_title="allocated, GiB")
    return str(figure.to_html(include_plotlyjs=True))
