"""A worker started early: whether it is what one started now would be, and its end."""

import os
import subprocess
import sys

import pytest

from pytest_membudget.budgets.settings import OFF, Settings
from pytest_membudget.gate.session import BudgetSession
from pytest_membudget.hardware.gpus import find_gpu
from pytest_membudget.worker.client import estimators, worker_start
from pytest_membudget.worker.client.worker_start import Order, WorkerStart
from pytest_membudget.worker.protocol import Channel

ORDER = Order(args=("-q",), dir="/", files=(), gpu="H100-80GB", timeout=5.0)


@pytest.fixture
def start(monkeypatch):
    """A process that says nothing, with one place on its import path."""

    def process(module, output, environment):
        code = [sys.executable, "-c", "import time; time.sleep(60)"]
        read_fd, write_fd = os.pipe()
        return subprocess.Popen(code), Channel(read_fd, write_fd)

    monkeypatch.setattr(worker_start, "start_process", process)
    find_gpu(ORDER.gpu)  # reads the catalogue, for which it imports what is not nowhere
    monkeypatch.setattr(sys, "path", ["/nowhere"])
    made = WorkerStart(ORDER)
    yield made
    if made.process.poll() is None:
        made.close(0)


def test_the_same_order_and_variables_are_what_it_was_started_for(start):
    assert start.is_for(ORDER)
    assert start.is_for(Order(**{**as_dict(), "files": ("t.py",)}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("args", ()),
        ("dir", "/tmp"),
        ("gpu", "A100-40GB"),
        ("records", True),
        ("observes", True),
        ("at_once", 2),
    ],
)
def test_another_order_is_not(start, name, value):
    assert not start.is_for(Order(**{**as_dict(), name: value}))


def test_other_variables_are_not(start, monkeypatch):
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "another.py")
    assert start.is_for(ORDER)
    monkeypatch.setenv("OMP_NUM_THREADS", "77")
    assert not start.is_for(ORDER)


def test_a_place_with_other_modules_alone_changes_nothing(start, monkeypatch, tmp_path):
    (tmp_path / "conftest.py").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path), "/nowhere", "/nowhere/else"])

    assert start.finds_the_same({"torch", "numpy"})


@pytest.mark.parametrize("name", ["torch.py", "numpy", "numpy.cpython-311-x86_64-linux-gnu.so"])
def test_a_place_that_may_have_one_of_its_modules_does(start, monkeypatch, tmp_path, name):
    (tmp_path / name).touch()
    monkeypatch.setattr(sys, "path", ["/nowhere", str(tmp_path)])

    assert not start.finds_the_same({"torch", "numpy"})


def test_so_do_an_archive_and_another_order_of_places(start, monkeypatch, tmp_path):
    archive = tmp_path / "more.zip"
    archive.touch()
    for path in ([str(archive), "/nowhere"], ["/elsewhere"]):
        monkeypatch.setattr(sys, "path", path)
        assert not start.finds_the_same({"torch"})


def test_it_is_ended_where_there_is_nothing_to_estimate(start, monkeypatch, request):
    monkeypatch.setattr(estimators, "WorkerStart", lambda order: start)
    session = BudgetSession(Settings(cache=OFF), (), "/")
    session.start_early(request.config)

    session.plan([])

    assert start.process.returncode is not None
    session.close()


def as_dict():
    return {name: getattr(ORDER, name) for name in Order.__slots__}
