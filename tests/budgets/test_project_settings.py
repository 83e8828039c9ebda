"""The settings of a session."""

import json

import pytest

from pytest_membudget.budgets.settings import Settings, load_settings
from pytest_membudget.errors import UsageMistake


@pytest.fixture
def pyproject(tmp_path):
    return tmp_path / "pyproject.toml"


def write_table(pyproject, *lines):
    pyproject.write_text("\n".join(["[tool.membudget]", *lines]), encoding="utf-8")


def refusal_of(pyproject, **command_line):
    with pytest.raises(UsageMistake) as refusal:
        load_settings(pyproject, command_line)
    return str(refusal.value)


@pytest.mark.parametrize(
    ("lines", "command_line", "settings"),
    [
        (None, {}, Settings(gpu=None, metric="allocated", timeout=300.0)),
        (['gpu = "T4"', 'metric = "reserved"', "timeout = 60"], {}, Settings("T4", "reserved", timeout=60)),
        (['gpu = "rtx 4090"'], {}, Settings("RTX-4090")),
        (['gpu = "T4"', 'metric = "reserved"'], {"gpu": "L4"}, Settings("L4", "reserved")),
    ],
    ids=["defaults", "of the table", "a card by its name in the catalogue", "the command line over the file"],
)
def test_keys_of_the_table_and_of_the_command_line_are_taken(pyproject, lines, command_line, settings):
    if lines is not None:
        write_table(pyproject, *lines)
    assert load_settings(pyproject, command_line) == settings


def test_the_defaults_of_marks_are_the_card_the_metric_and_the_growth():
    assert Settings(gpu="T4", metric="device", timeout=5, max_growth="2%").marker_defaults() == {
        "gpu": "T4",
        "metric": "device",
        "max_growth": "2%",
    }


@pytest.mark.parametrize("value", ["2 percent", "", 2])
def test_a_growth_that_cannot_be_read_is_refused_with_what_to_write(pyproject, value):
    write_table(pyproject, f"max_growth = {json.dumps(value)}")
    text = refusal_of(pyproject)
    assert text.startswith(f"{pyproject}:1: [tool.membudget] max_growth = {value!r}: ")
    assert "'2% + 64 MiB'" in text


@pytest.mark.parametrize("line", ['snapshots = "always"', "snapshots = true", 'snapshots = ""'])
def test_an_unknown_word_is_refused_with_those_there_are(pyproject, line):
    write_table(pyproject, line)
    assert "write one of 'off', 'over', 'all'" in refusal_of(pyproject)


def test_every_mistake_is_reported_with_the_tables_line(pyproject):
    write_table(pyproject, "timeout = 0", "metrics = 3", "tests = [3]")
    text = refusal_of(pyproject, gpu="potato")
    lines = [line.removeprefix(str(pyproject)) for line in text.splitlines()]
    assert [line.partition(" ")[0] for line in lines] == ["--membudget-gpu=potato:", *3 * [":1:"]]


def test_a_wrong_file_is_refused_though_the_command_line_overrules_it(pyproject):
    write_table(pyproject, 'gpu = "potato"')
    assert "potato" in refusal_of(pyproject, gpu="T4")


@pytest.mark.parametrize("value", ["inf", "nan"])  # TOML has both
def test_a_timeout_that_is_no_time_is_refused(pyproject, value):
    write_table(pyproject, f"timeout = {value}")
    assert refusal_of(pyproject) == (
        f"{pyproject}:1: [tool.membudget] timeout = {value}: "
        "write a finite number of seconds above 0, as in timeout = 300"
    )


def test_a_file_that_is_not_toml_is_refused_with_its_path(pyproject):
    pyproject.write_text("[tool.membudget\n", encoding="utf-8")
    assert refusal_of(pyproject).startswith(f"{pyproject} cannot be read for [tool.membudget]: ")


def test_a_value_where_the_table_should_be_is_refused(pyproject):
    pyproject.write_text("[tool]\nmembudget = 40\n", encoding="utf-8")
    assert refusal_of(pyproject) == f"{pyproject}: tool.membudget is 40; write a table [tool.membudget]"
