"""Waivers as they are written in the settings: what is taken, and what is refused."""

import datetime

import pytest

from pytest_membudget.budgets.settings import Waiver, load_settings
from pytest_membudget.errors import UsageMistake

GOOD = {
    "test": "'test_a.py::test_a'",
    "ceiling_gib": "44",
    "reason": "'a new optimizer'",
    "expires": "2026-12-31",
}
WAIVER = Waiver("test_a.py::test_a", 44, "a new optimizer", datetime.date(2026, 12, 31))
PLACE = "pyproject.toml:2: [tool.membudget] waivers"


@pytest.fixture
def waivers_of(tmp_path):
    """The waivers of a table with these lines."""

    def read(*lines):
        pyproject = tmp_path / "pyproject.toml"
        pyproject.write_text("\n".join(["[tool.membudget]", *lines]), encoding="utf-8")
        return load_settings(pyproject, {}).waivers

    return read


@pytest.fixture
def refusal_of(waivers_of, tmp_path):
    def read(*lines):
        with pytest.raises(UsageMistake) as refusal:
            waivers_of(*lines)
        return str(refusal.value).removeprefix(f"{tmp_path}/")

    return read


def inline(entry):
    return f"waivers = [{{{', '.join(f'{key} = {value}' for key, value in entry.items())}}}]"


@pytest.mark.parametrize("day", ["2026-12-31", "'2026-12-31'", "2026-12-31T10:00:00"])
def test_an_entry_is_taken_its_day_as_a_text_too(waivers_of, day):
    assert waivers_of(inline({**GOOD, "expires": day})) == (WAIVER,)


def test_without_any_there_is_none(waivers_of):
    assert waivers_of() == waivers_of("waivers = []") == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test": "''"}, "test = '': write a text, as in waivers[0].test = 'tests/test_a.py::test_b'"),
        (
            {"ceiling_gib": "'44'"},
            "ceiling_gib = '44': write a finite number of GiB above 0, as in ",
        ),
        ({"ceiling_gib": "true"}, "ceiling_gib = true: write a finite number"),
        ({"ceiling_gib": "inf"}, "ceiling_gib = inf: write a finite number"),
        ({"reason": "' '"}, "reason = ' ': write a text"),
        ({"expires": "'soon'"}, "expires = 'soon': write a day, as in expires = 2026-12-31"),
        ({"expire": "3"}, "expire = 3: there is no key expire in waivers[0]; did you mean expires?"),
    ],
)
def test_a_value_that_cannot_be_used_is_named_with_its_line_and_key(refusal_of, changes, message):
    assert refusal_of(inline({**GOOD, **changes})).startswith(f"{PLACE}[0].{message}")


def test_one_of_several_tables_is_named_with_its_own_line(refusal_of):
    entry = [f"{key} = {value}" for key, value in GOOD.items()]
    table = "[[tool.membudget.waivers]]"
    text = refusal_of(table, *entry, table, *entry[:3], "expires = 'soon'")
    assert text.startswith("pyproject.toml:11: [tool.membudget] waivers[1].expires = 'soon': write a day")


@pytest.mark.parametrize("key", GOOD)
def test_every_key_has_to_be_there(refusal_of, key):
    entry = {name: value for name, value in GOOD.items() if name != key}
    assert refusal_of(inline(entry)).startswith(f"{PLACE}[0].{key} is missing: ")


@pytest.mark.parametrize("written", ["'test_a'", "{test = 'x'}", "3"])
def test_what_is_no_list_is_refused_with_an_example(refusal_of, written):
    text = refusal_of(f"waivers = {written}")
    assert text.startswith(
        f"{PLACE} = {written}: write a list, each a table, as in waivers = [{{test = 'tests"
    )


def test_an_entry_that_is_no_table_is_refused_with_its_keys(refusal_of):
    text = refusal_of("waivers = [3]")
    assert text == f"{PLACE}[0] = 3: write a table of test, ceiling_gib, reason, expires"
