"""Which installer an environment has."""

import importlib.util
import sys

import pytest

from pytest_membudget.commands.installers import find_installer
from pytest_membudget.errors import UsageMistake


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    """The folder of an environment with pip that ``python -m venv`` made, and without uv."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path / "bin"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.7\n")
    return tmp_path


def uv_in(folder):
    folder.mkdir()
    (folder / "uv").write_text("#!/bin/sh\n")
    (folder / "uv").chmod(0o755)
    return str(folder / "uv")


UV_OPTIONS = ("pip", "install", "--python", sys.executable)


def test_pip_where_the_environment_has_it(prefix):
    path = uv_in(prefix / "elsewhere")

    found = find_installer({"PATH": str(prefix / "elsewhere"), "UV": path})

    assert (found.name, found.command) == ("pip", (sys.executable, "-m", "pip", "install", "--no-compile"))


def test_uv_where_it_made_the_environment(prefix):
    (prefix / "pyvenv.cfg").write_text("home = /usr/bin\nuv = 0.13.9\n")
    assert find_installer({"PATH": ""}).name == "pip"  # no uv is left to run

    path = uv_in(prefix / "elsewhere")
    found = find_installer({"PATH": str(prefix / "elsewhere")})

    assert (found.name, found.command) == ("uv", (path, *UV_OPTIONS))


@pytest.mark.parametrize("place", ["variable", "path", "environment"])
def test_uv_where_there_is_no_pip(prefix, monkeypatch, place):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    folder = prefix / ("bin" if place == "environment" else "elsewhere")
    path = uv_in(folder)
    environment = {"variable": {"UV": path}, "path": {"PATH": str(folder)}, "environment": {"PATH": ""}}[
        place
    ]

    assert find_installer(environment).command == (path, *UV_OPTIONS)


def test_neither_is_an_error_with_what_to_do(prefix, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    with pytest.raises(
        UsageMistake, match=r"has no pip, and there is no uv: run `.* -m ensurepip`, or install uv"
    ):
        find_installer({"PATH": ""})
