"""Values as their sources write them."""

import datetime

import pytest

from pytest_membudget.user_input.nodes import PYTHON, TOML, YAML, Node, nodes_of


@pytest.fixture
def ours():
    table = {
        "quoted": True,
        "inline": {"a": 1, "b": {"c": 2}},
        "several": [1, 2],
        "row": {"a": 2, "b": datetime.date(2026, 12, 31)},
    }
    return nodes_of(table, Node(None, "p.toml", 4, syntax=TOML))


def test_values_have_the_place_of_their_table(ours):
    assert (ours.place, ours.value["inline"].value["b"].value["c"].place) == ("p.toml:4", "p.toml:4")


def test_values_are_shown_as_toml_writes_them(ours):
    assert ours.value["row"].text == "{a = 2, b = 2026-12-31}"
    assert ours.value["quoted"].text == "true"
    assert ours.value["inline"].text == "{a = 1, b = {c = 2}}"
    assert ours.value["several"].field("several") == "several = [1, 2]: "


@pytest.mark.parametrize(
    ("syntax", "shown"),
    [
        (YAML, "f: {a: [1, x], b: true}"),
        (TOML, "f = {a = [1, 'x'], b = true}"),
        (PYTHON, "f={'a': [1, 'x'], 'b': True}"),
    ],
)
def test_an_example_is_written_in_the_syntax_of_its_source(syntax, shown):
    assert Node(None, "file", 1, syntax=syntax).example("f", {"a": [1, "x"], "b": True}) == shown


def test_a_value_of_no_line_is_its_place():
    node = Node(3, "mark(f=3)", syntax=PYTHON)

    assert (node.place, node.field("f")) == ("mark(f=3)", "")
    assert Node(datetime.date(2026, 1, 2), "p.toml", 1, syntax=TOML).text == "2026-01-02"
