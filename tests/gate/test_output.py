"""The line of progress on a terminal, and the lines where there is none."""

import queue
import re
from types import SimpleNamespace

import pytest

from pytest_membudget.gate import output
from pytest_membudget.gate.output import progress_line


def session(reporter, width=80, verbosity=0):
    return SimpleNamespace(
        pluginmanager=SimpleNamespace(getplugin=lambda _: reporter),
        get_verbosity=lambda: verbosity,
        get_terminal_writer=lambda: SimpleNamespace(fullwidth=width),
    )


@pytest.mark.parametrize(
    ("width", "nodeid", "shown"),
    [
        (80, "tests/test_a.py::test_b", "membudget: estimating 7/12 tests/test_a.py::test_b"),
        (51, "tests/test_a.py::test_b", "membudget: estimating 7/12 tests/test_a.py::test_b"),
        (50, "tests/test_a.py::test_b", "membudget: estimating 7/12 …sts/test_a.py::test_b"),
        (29, "tests/test_a.py::test_b", "membudget: estimating 7/12 …"),
    ],
)
def test_a_long_node_id_is_cut_at_its_beginning_to_fit_the_line(width, nodeid, shown):
    lines = []
    reporter = SimpleNamespace(
        isatty=True, rewrite=lambda text, erase: lines.append(text), write_line=lines.append
    )
    with progress_line(session(reporter, width), 12) as step:
        step(7, nodeid)

    assert lines[0] == shown
    assert len(shown) < width


def test_without_a_terminal_a_test_that_goes_on_is_named_again_and_again_with_its_seconds(monkeypatch):
    monkeypatch.setattr(output, "_INTERVAL", 0.01)
    lines = queue.Queue()
    with progress_line(session(SimpleNamespace(write_line=lines.put)), 12) as step:
        step(7, "test_a.py::test_b")
        first, *written = [lines.get(timeout=60) for _ in range(3)]

    assert first == "membudget: estimating 12 tests"
    for line in written:
        assert re.fullmatch(r"membudget: estimating 7/12 test_a.py::test_b \(\d+ s\)", line)


@pytest.mark.parametrize("isatty", [True, False])
def test_with_q_nothing_is_written_until_a_line_is_due(monkeypatch, isatty):
    lines = queue.Queue()
    reporter = SimpleNamespace(isatty=isatty, write_line=lines.put)
    with progress_line(session(reporter, verbosity=-1), 12) as step:
        step(7, "test_a.py::test_b")
    assert lines.empty()

    monkeypatch.setattr(output, "_INTERVAL", 0.01)
    with progress_line(session(reporter, verbosity=-1), 12) as step:
        step(7, "test_a.py::test_b")
        assert lines.get(timeout=60).startswith("membudget: estimating 7/12 test_a.py::test_b")


def test_a_line_is_due_at_least_every_30_seconds():
    assert output._INTERVAL <= 30
