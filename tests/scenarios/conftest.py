"""What tests of scenario files share: what a file's text comes to."""

import textwrap

import pytest
import yaml  # noqa: F401 - once: sessions in this process forget what they import, and its C part does not

from pytest_membudget.errors import UsageMistake
from pytest_membudget.scenarios.grid import points_of
from pytest_membudget.scenarios.jobs import read_scenario
from pytest_membudget.scenarios.reading import read_entries

SETTINGS = {"gpu": None, "metric": "allocated"}


class Folder:
    """A folder with one scenario file."""

    def __init__(self, path):
        self.path = path
        self.file = path / "f.membudget.yaml"

    def entries(self, text):
        """The entries of the file with this text."""
        self.file.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        return read_entries(self.file, "f.membudget.yaml")

    def points(self, text):
        """The points of all its entries by their ids."""
        return {point.name: point for entry in self.entries(text) for point in points_of(entry)}

    def scenarios(self, text, settings=SETTINGS):
        """The scenarios by their ids; a text of mistakes for those that have some."""
        found = {}
        for name, point in self.points(text).items():
            try:
                found[name] = read_scenario(point, self.path, settings)
            except UsageMistake as error:
                found[name] = str(error)
        return found

    def scenario(self, fields, settings=SETTINGS):
        """The one budget with these fields beside its name."""
        body = textwrap.indent(textwrap.dedent(fields).strip("\n"), "    ")
        return self.scenarios(f"budgets:\n  - name: one\n{body}\n", settings)["one"]


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)
