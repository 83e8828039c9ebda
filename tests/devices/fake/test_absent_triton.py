"""Libraries that take another path where Triton is not installed: the report of such a test says so."""

import importlib
import importlib.util
import sys

import pytest

from pytest_membudget.devices.fake.absent_triton import ABSENT, AbsentTriton

KERNELS = "kernels_that_nobody_has"
FILES = {
    "answering/__init__.py": f"""
import importlib.util

def available():
    return importlib.util.find_spec({KERNELS!r}) is not None
""",
    "asking/__init__.py": "from asking.loss import loss\n",
    "asking/loss.py": """
from answering import available

FUSED = available()

def loss(x):
    return x
""",
    "trying.py": f"""
try:
    import {KERNELS}
except ImportError:
    pass

def run():
    pass
""",
}


@pytest.fixture
def absent(tmp_path, monkeypatch):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.lstrip())
    monkeypatch.syspath_prepend(tmp_path)
    finder = AbsentTriton(KERNELS)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    finder.install()
    yield finder
    for name in ("answering", "asking", "asking.loss", "trying"):
        sys.modules.pop(name, None)


def test_who_asks_through_another_library_is_named(absent, tmp_path):
    ran = [importlib.import_module("asking.loss").__file__]

    assert absent.texts(ran, str(tmp_path)) == [ABSENT.format(package="asking", place="asking/loss.py:3")]


def test_a_module_that_tries_to_import_it_is_named(absent, tmp_path):
    ran = [importlib.import_module("trying").__file__]

    assert absent.texts(ran, str(tmp_path)) == [ABSENT.format(package="trying", place="trying.py:2")]


def test_libraries_that_do_not_run_are_not_named(absent, tmp_path):
    importlib.import_module("asking")
    importlib.import_module("trying")

    assert absent.texts([__file__], str(tmp_path)) == []


def test_what_is_there_is_not_listened_for(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))

    AbsentTriton("json").install()

    assert not any(isinstance(finder, AbsentTriton) for finder in sys.meta_path)


def asks_and_runs():
    import torch

    fused = importlib.util.find_spec("triton") is not None
    return fused, torch.zeros(4, device="cuda").numel()


@pytest.mark.skipif(importlib.util.find_spec("triton") is not None, reason="triton is installed")
def test_the_report_of_a_test_without_triton_says_so(trace):
    report = trace(asks_and_runs).report

    (text,) = report.not_modelled
    assert text.startswith("test_absent_triton looks for Triton (test_absent_triton.py:")
