"""The reference has every name that there is, and none that is not: each table against the code."""

import inspect
import re
from pathlib import Path

import pytest

import pytest_membudget
from pytest_membudget import caveats, components, outcomes, plugin, testing
from pytest_membudget.budgets import verdict
from pytest_membudget.budgets.budget import ARGUMENTS, SIGNATURE
from pytest_membudget.budgets.custom_gpus import CARD
from pytest_membudget.budgets.settings import SETTINGS
from pytest_membudget.commands import report
from pytest_membudget.commands.main import parser
from pytest_membudget.comparison import comparing
from pytest_membudget.comparison.base.exchange import Base
from pytest_membudget.components import METRICS
from pytest_membudget.memory_report import Holder, MemoryReport
from pytest_membudget.reporting.files import json_file, junit
from pytest_membudget.results.comparison import (
    STATES,
)
from pytest_membudget.results.test_result import TestResult
from pytest_membudget.scenarios import schema

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
SCENARIOS = (ROOT / "docs" / "scenarios.md").read_text(encoding="utf-8")

PEAK = dict.fromkeys(METRICS, 0)
HOLDER = Holder(1, 1, "inputs", None, None, "aten::empty")


def section(title, page=PAGE):
    """The text below a heading, up to the next one of any level."""
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", page, re.MULTILINE | re.DOTALL)
    assert found is not None, f"there is no section {title!r}"
    return found[1]


def documented(title, page=PAGE):
    """The names in the first column of a section's table."""
    rows = re.findall(r"^\| (`.*?`(?:, `.*?`)*) \|", section(title, page), re.MULTILINE)
    names = [name for cell in rows for name in re.findall(r"`([^`]+)`", cell)]
    assert len(names) == len(set(names)), f"a name stands twice in {title!r}"
    return set(names)


class Options:
    """Stands for pytest's parser and keeps what it is given."""

    def __init__(self):
        self.choices = {}

    def getgroup(self, *_):
        return self

    def addoption(self, name, choices=(), **_):
        self.choices[name] = choices


def options():
    parser = Options()
    plugin.pytest_addoption(parser)
    return parser.choices


# The command line and the settings


@pytest.mark.parametrize(("name", "choices"), [(n, c) for n, c in options().items() if c])
def test_the_words_that_an_option_takes(name, choices):
    [row] = [line for line in section("Options of pytest").splitlines() if line.startswith(f"| `{name}`")]

    assert set(re.findall(r"`([^`]+)`", row.split("|")[2])) == set(choices)


# The marker and its words


def test_arguments_of_the_marker():
    assert documented("The marker") == set(ARGUMENTS.by_name)
    assert f"`{SIGNATURE}`" in section("The marker")


def test_ends_of_tests():
    ends = [
        name
        for name, value in vars(outcomes).items()
        if inspect.isclass(value) and issubclass(value, pytest.fail.Exception)
    ]

    assert documented("How a test ends") == set(ends)


# report.json


def figure(**more):
    return MemoryReport("traced", "allocated", PEAK, {}, holders=(HOLDER,), **more)


def result(**more):
    return TestResult("a::b", "a:1", "within", "", **more)


def written(tmp_path, whole):
    import json

    return json.loads(json_file.write_report(tmp_path, tmp_path, [], comparison=whole).read_text())


def compared_whole():
    report = comparing.StoredReport("report.json", Base())
    never = comparing.Comparing(report)
    return never.session([], is_whole=True, lists_removed=True)


#: Headings of tables, and the names that stand in their first columns.
TABLES = {
    "Options of pytest": options(),
    "Settings": SETTINGS.by_name,
    "Custom GPUs": CARD.by_name,
    "Components": components.COMPONENTS,
    "Metrics": components.METRICS,
    "Verdicts": verdict.VERDICTS,
    "States": STATES,
    # the sixth is of newer releases of pytest
    "Exit status": {"6", *(str(int(code)) for code in pytest.ExitCode)},
    "A row": set(result().to_json()) - {*TestResult.unreported},
    "A figure": figure().to_json(),
    "A caveat": {cause.kind for cause in caveats.CAUSES.values()},
    "Formats": report.WRITERS,
    "Names to import": pytest_membudget.__all__,
    "Testing": testing.__all__,
}


@pytest.mark.parametrize("title", TABLES)
def test_a_table_has_all_names_and_no_others(title):
    assert documented(title) == set(TABLES[title])


def test_keys_of_the_document(tmp_path):
    assert documented("The document") == set(written(tmp_path, compared_whole()))


def test_keys_of_git(tmp_path):
    [line] = [line for line in section("The document").splitlines() if line.startswith("| `git`")]

    assert set(re.findall(r"`([^`]+)`", line.split("|")[2])) == set(written(tmp_path, None)["git"])


def test_properties():
    full = MemoryReport("traced", "allocated", dict.fromkeys(METRICS, 3), {"inputs": 3})
    both = result(limit_bytes=4, estimates=(full,), measurements=(full,))
    found = {name.replace("inputs", "<component>") for name, _ in junit.figures(both)}

    assert documented("Properties in JUnit files") == found


def test_subcommands_of_membudget():
    [commands] = [action for action in parser()._actions if action.dest == "command"]

    assert documented("The command membudget") == set(commands.choices)
    for name, command in commands.choices.items():
        options = {option for action in command._actions for option in action.option_strings}
        assert documented(f"membudget {name}") == options - {"-h", "--help"}, name


def test_names_of_steps():
    steps = pytest.importorskip("pytest_membudget.steps")

    assert documented("Steps") == set(steps.__all__)


def test_variables():
    sources = [path.read_text(encoding="utf-8") for path in Path(plugin.__file__).parent.rglob("*.py")]
    found = {name for text in sources for name in re.findall(r'"(MEMBUDGET_[A-Z_]*[A-Z])"', text)}

    assert documented("Variables") == found


# Scenario files, which have a page of their own


def test_every_field_of_a_scenario_is_of_a_group_or_the_grid():
    grouped = {one.name for fields in schema.GROUPS.values() for one in fields}

    assert set(schema.BUDGET.by_name) == {*grouped, schema.GRID.name}
    assert f"`{schema.GRID.name}`" in section("Grids", SCENARIOS)
