"""The README names what there is: every option, marker argument, component, setting, step and example."""

import re
from pathlib import Path

import pytest

from pytest_membudget import marker, marker_help, plugin
from pytest_membudget.components import COMPONENTS
from pytest_membudget.config import Settings

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


class OptionNames:
    """Stands for pytest's parser and keeps the names of the options it is given."""

    def __init__(self):
        self.names = []

    def getgroup(self, *_):
        return self

    def addoption(self, name, **_):
        self.names.append(name)


def options():
    parser = OptionNames()
    plugin.pytest_addoption(parser)
    return parser.names


@pytest.mark.parametrize("name", options())
def test_every_option_is_in_the_readme(name):
    assert f"`{name}`" in README


def test_the_markers_signature_is_the_one_that_pytest_shows():
    assert f"`{marker_help.SIGNATURE}`" in README


def test_the_signature_has_every_argument_that_the_marker_takes():
    arguments = re.findall(r"(\w+)=", marker_help.SIGNATURE)

    assert sorted(arguments) == sorted(marker._CHECKS)


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_component_is_in_the_readme(component):
    assert f"`{component}`" in README


@pytest.mark.parametrize("key", Settings.__slots__)
def test_every_setting_is_in_the_readme(key):
    assert re.search(rf"^{key} = ", README, re.MULTILINE)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("test_*.py")), ids=lambda path: path.name)
def test_every_example_has_a_line_in_the_readme(path):
    assert f"examples/{path.name}" in README


def test_every_step_is_in_the_readme():
    steps = pytest.importorskip("pytest_membudget.steps")

    for name in ("train_step", "distillation_step", "optimizer_in_backward", "inference_step"):
        assert hasattr(steps, name)
        assert f"`{name}`" in README


def test_no_place_is_left_open_in_the_readme():
    assert not re.search(r"@[A-Z_]+@", README)
