"""The folder of the base's run: who waits is answered or told why not, and waits for no dead process."""

import os
import shutil
import sys
from types import SimpleNamespace

import pytest

from pytest_membudget.comparison.base.exchange import Base, Exchange, Head, Order
from pytest_membudget.comparison.base.invocation import Invocation
from pytest_membudget.comparison.base.run import BaseRun
from pytest_membudget.comparison.base.sources import Start


@pytest.fixture
def exchange(tmp_path):
    return Exchange(tmp_path)


def test_what_is_written_is_read(exchange):
    assert exchange.read(Head) is None
    exchange.write(Head(["a"], ["a", "b"], []))
    assert exchange.read(Head) == Head(["a"], ["a", "b"], [])


def test_a_result_ends_the_waiting(exchange):
    exchange.write(Base(trouble="why"))
    assert exchange.wait(0) == Base(trouble="why")


def test_a_process_that_dies_ends_the_waiting(tmp_path):
    """Here it exits at once, for its folder is not there."""
    order = Order([], str(tmp_path / "none"), Head([], [], []), str(tmp_path), str(tmp_path))
    start = Start(order, sys.path, os.environ, sys.executable)
    source = SimpleNamespace(top=tmp_path, prepare=lambda *of_head: start)
    run = BaseRun(source, Invocation([], str(tmp_path), str(tmp_path)))
    run.begin(Head([], [], []))

    found = run.exchange.wait(60)

    run.close()
    assert found == Base(trouble="the base could not be estimated: its run ended without output")
    assert not run.folder.exists()


def test_a_session_that_ends_ends_the_waiting(exchange):
    shutil.rmtree(exchange.folder)
    assert exchange.wait(30) is None


def test_waiting_has_a_limit(exchange):
    assert exchange.wait(0.2) is None


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("collecting\nERROR: file not found\nmore\n", "ERROR: file not found"),
        ("ImportError while loading conftest 'c.py'.\nE   x\n", "ImportError while loading conftest 'c.py'."),
        ("ERROR: a file\n  that is folded\nmore\n", "ERROR: a file that is folded"),
        ("a\n\nthe last of it\n\n", "the last of it"),
        ("", "its run ended without output"),
    ],
)
def test_the_first_complaint_is_why(exchange, printed, said):
    with exchange.output() as file:
        file.write(printed.encode())
    assert exchange.complaint() == said


def test_without_output_there_is_nothing_to_report(exchange):
    assert exchange.complaint() == "its run ended without output"
