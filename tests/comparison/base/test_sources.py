"""The base of ``python:PATH``: which interpreters can be used, and what their process is started with."""

import json
import sys
from pathlib import Path

import pytest

import pytest_membudget
from pytest_membudget.comparison.base.exchange import Head
from pytest_membudget.comparison.base.invocation import Invocation
from pytest_membudget.comparison.base.sources import (
    _DISTRIBUTIONS,
    _NEEDED,
    EnvironmentSource,
    find_environment,
)
from pytest_membudget.errors import UsageMistake

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


def interpreter(folder, **answers):
    """A program that answers like an interpreter."""
    given = {"version": [3, 11, 7], "prefix": "/other", "path": ["/other/lib"], "missing": [], **answers}
    return program(folder, f"echo 'a line of sitecustomize'; echo '{json.dumps(given)}'")


def program(folder, script):
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_an_interpreter_is_named_from_the_folder_that_pytest_was_started_in(tmp_path):
    interpreter(tmp_path)

    found = find_environment("python:python", tmp_path, tmp_path)

    assert (found.python, found.import_path) == (str(tmp_path / "python"), ("/other/lib",))
    assert found.shown == "python:python (Python 3.11.7)"
    assert found.commit is None


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"version": [3, 9, 1]}, "is Python 3.9.1; 3.10 or later is needed"),
        ({"prefix": sys.prefix}, "is this session's own environment; name the interpreter of another one"),
        (
            {"missing": ["torch", "yaml"]},
            "that environment lacks torch, pyyaml; install what is missing: "
            "{folder}/python -m pip install torch pyyaml",
        ),
    ],
)
def test_an_environment_that_cannot_estimate_is_refused(tmp_path, answers, message):
    interpreter(tmp_path, **answers)

    with pytest.raises(UsageMistake) as refused:
        find_environment("python:python", tmp_path, tmp_path)
    assert str(refused.value) == f"--membudget-compare=python:python: {message.format(folder=tmp_path)}"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (None, "{folder}/python does not exist; write the path of another environment's interpreter, as in "),
        ("echo hello", "{folder}/python is no Python interpreter that works: hello"),
        ("exit 1", "{folder}/python is no Python interpreter that works: it printed nothing"),
        ("echo 1", "{folder}/python is no Python interpreter that works: 1"),
    ],
)
def test_what_is_no_interpreter_is_refused(tmp_path, script, message):
    if script is not None:
        program(tmp_path, script)

    with pytest.raises(UsageMistake) as refused:
        find_environment("python:python", tmp_path, tmp_path)
    assert message.format(folder=tmp_path) in str(refused.value)


def test_a_folder_and_a_file_that_cannot_be_run_are_refused(tmp_path):
    (tmp_path / "file").touch()

    for name, message in (("", "is a folder; write"), ("file", "cannot be run: ")):
        with pytest.raises(UsageMistake, match=message):
            find_environment(f"python:{name}", tmp_path, tmp_path)


def test_what_is_asked_for_is_what_the_package_depends_on():
    written = PROJECT.read_text().partition("dependencies = [")[2].partition("]")[0]
    names = [line.strip().strip('",').partition(">")[0] for line in written.strip().splitlines()]

    assert {name for name in names if not name.startswith("tomli")} == {
        _DISTRIBUTIONS.get(name, name) for name in _NEEDED
    }


def test_the_process_has_this_package_the_checkout_and_nothing_else_of_the_heads(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMBUDGET_CACHE_DIR", str(tmp_path / "cache"))
    checkout = tmp_path / "checkout"
    monkeypatch.setattr(sys, "path", ["/head/site-packages", str(checkout / "src")])
    source = EnvironmentSource("python:p", "/p", "3.12.1", ("/other/lib",), checkout)
    head = Head([], [], [str(checkout / "lib")])

    start = source.prepare(tmp_path, Invocation(["-q"], "/started/in", "/root"), head)

    package, *others = start.import_path
    assert others == [str(checkout / "lib"), str(checkout / "src"), "/other/lib"]
    assert [path.resolve() for path in Path(package).iterdir()] == [Path(pytest_membudget.__file__).parent]
    assert (start.python, start.order.dir) == ("/p", "/started/in")
    assert start.order.args[-2:] == ["--rootdir=/root", "-q"]
    # estimates are cached by the import path
    assert source.prepare(tmp_path / "next", Invocation([], "", ""), head).import_path[0] == package


def test_without_a_cache_the_package_is_linked_in_the_sessions_folder(tmp_path, monkeypatch):
    (tmp_path / "cache").touch()
    monkeypatch.setenv("MEMBUDGET_CACHE_DIR", str(tmp_path / "cache"))
    source = EnvironmentSource("python:p", "/p", "3.12.1", (), tmp_path)

    start = source.prepare(tmp_path, Invocation([], "", ""), Head([], [], []))

    assert start.import_path[0] == str(tmp_path / "package")
