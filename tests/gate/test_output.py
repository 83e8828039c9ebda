"""The line of progress on a terminal."""

from types import SimpleNamespace

import pytest

from pytest_membudget.gate.output import progress_line


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
    config = SimpleNamespace(
        pluginmanager=SimpleNamespace(getplugin=lambda _: reporter),
        get_verbosity=lambda: 0,
        get_terminal_writer=lambda: SimpleNamespace(fullwidth=width),
    )
    with progress_line(config, 12) as step:
        step(7, nodeid)

    assert lines[0] == shown
    assert len(shown) < width
