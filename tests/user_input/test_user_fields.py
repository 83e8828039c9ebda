"""Kinds of fields: each takes what it says, refuses the rest with a remedy, and says so as JSON Schema."""

import datetime
from dataclasses import dataclass

import pytest

from pytest_membudget.errors import UsageMistake
from pytest_membudget.user_input.fields import Field, Table, described, fields_of
from pytest_membudget.user_input.files import read_yaml
from pytest_membudget.user_input.kinds import (
    FLAG,
    choice,
    list_of,
    number,
    number_table,
    parsed,
    several,
    text,
    text_or_table,
    whole,
)
from pytest_membudget.user_input.kinds import (
    TABLE as ANY_TABLE,
)
from pytest_membudget.user_input.nodes import UNREADABLE, Mistakes, nearest
from tests.json_schemas import schema_of

TABLE = Table(
    (
        Field("kind", choice(("one", "two")), "Which.", required=True),
        Field("size", whole(), "How much."),
        Field("flag", FLAG, "Whether."),
    ),
    main="kind",
)
ONE_OF = Table((Field("a", whole(), "A."), Field("b", whole(), "B.")), one_of=("a", "b"))

GIB = number(40, unit="GiB")
CASES = [
    (text("x"), ["abc", "'1'"], ["''", "1", "[a]", "true", "' '"]),
    (choice(("one", "two")), ["one"], ["three", "1", "[one]", "{}"]),
    (choice((32, 8)), ["8"], ["true", "'8'", "9"]),
    (whole(), ["1", "1_000"], ["0", "1.5", "true", "'1'", "x"]),
    (whole(also=(-1,)), ["-1", "3"], ["0", "-2"]),
    (whole(most=8), ["1", "8"], ["0", "9"]),
    (parsed("day", datetime.date.fromisoformat, {"type": "string", "format": "date"}), ["'2026-12-31'"], []),
    (GIB, ["40", "0.5"], ["0", "-1", ".inf", ".nan", "true", "'40'", "1e3"]),
    (number(0.1, is_included=True, below=1), ["0", "0.5"], ["1", "-0.1"]),
    (FLAG, ["true", "off"], ["1", "'true'", "maybe"]),
    (list_of(choice(("a", "b"))), ["a", "[a, b]"], ["[]", "[a, a]", "[c]", "{a: b}"]),
    (several(whole(0), [9, 0]), ["[9, 0]", "[8, 8]"], ["[9]", "9", "[a, b]"]),
    (number_table(("a", "b"), GIB), ["{a: 1}", "{a: 1, b: 2.5}"], ["{}", "{c: 1}", "{a: x}", "3"]),
    (ANY_TABLE, ["{a: [b]}"], ["{}", "a", "[a]"]),
    (text_or_table("x.json"), ["x.json", "{a: 1}"], ["''", "{}", "3", "[a]"]),
    (TABLE, ["one", "{kind: one, size: 3}", "{kind: two, flag: null}"], ["three", "[one]", "{kind: x}"]),
    (ONE_OF, ["{a: 1}", "{b: 2}", "{a: 1, b: null}"], ["{a: 1, b: 2}", "3"]),
]

NOT_IN_JSON = (".inf", ".nan")


@pytest.fixture
def node_of(tmp_path):
    def read(text):
        path = tmp_path / "f.yaml"
        path.write_text(f"f: {text}\n", encoding="utf-8")
        return read_yaml(path, "f.yaml").value["f"]

    return read


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, good, _ in CASES for text in good])
def test_a_kind_takes_what_it_says(node_of, kind, text):
    mistakes = Mistakes()

    assert kind.read(node_of(text), "f", mistakes) is not UNREADABLE
    assert not mistakes.lines


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, _, bad in CASES for text in bad])
def test_a_kind_refuses_the_rest_with_the_place_and_the_field(node_of, kind, text):
    mistakes = Mistakes()

    assert kind.read(node_of(text), "f", mistakes) is UNREADABLE
    assert all(line.startswith("f.yaml:1: ") and " f" in line for line in mistakes.lines)
    assert mistakes.lines


@pytest.mark.parametrize(
    ("kind", "text", "is_good"),
    [
        (kind, text, is_good)
        for kind, good, bad in CASES
        for texts, is_good in ((good, True), (bad, False))
        for text in texts
        if text not in NOT_IN_JSON and schema_of(kind)
    ],
)
def test_the_json_schema_says_the_same(node_of, kind, text, is_good):
    jsonschema = pytest.importorskip("jsonschema")

    assert jsonschema.Draft7Validator(schema_of(kind)).is_valid(node_of(text).plain) == is_good


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        (whole(example=4), "two", "f: two: write a whole number of at least 1, as in f: 4"),
        (GIB, "'40'", "f: '40': write a finite number of GiB above 0, as in f: 40"),
        (choice(("foreach", "fused")), "fusd", "f: fusd: write fused; the values are foreach, fused"),
        (choice(("foreach", "fused")), "x", "f: x: write one of foreach, fused"),
        (
            number_table(("gradients",), GIB),
            "{gradient: 1}",
            "f.gradient: 1: there is no key gradient in f; did you mean gradients?",
        ),
        (TABLE, "{kind: one, sise: 1}", "f.sise: 1: there is no field sise in f; did you mean size?"),
        (
            TABLE,
            "{kind: one, zzz: 1}",
            "f.zzz: 1: there is no field zzz in f; the fields are kind, size, flag",
        ),
        (TABLE, "{size: 1}", "f.kind is missing: Which."),
        (ONE_OF, "{a: 1, b: 2}", "write exactly one of f.a, f.b: a, b"),
        (list_of(text("x")), "[a, a]", "f: [a, a]: write each value once"),
    ],
)
def test_a_refusal_says_what_to_write(node_of, kind, text, told):
    mistakes = Mistakes()

    kind.read(node_of(text), "f", mistakes)

    assert mistakes.lines == [f"f.yaml:1: {told}"]


def test_mistakes_are_reported_in_the_order_of_the_file(tmp_path):
    path = tmp_path / "f.yaml"
    path.write_text("a: x\nb: y\n", encoding="utf-8")
    nodes = read_yaml(path, "f.yaml").value
    mistakes = Mistakes()

    mistakes.add(nodes["b"], "second")
    mistakes.add(nodes["a"], "first")
    mistakes.add(nodes["a"], "first")

    assert mistakes.lines == ["f.yaml:1: first", "f.yaml:2: second"]


def test_nothing_is_near_to_what_is_like_nothing():
    assert nearest("micro_bacth", ("micro_batch", "sequence")) == "micro_batch"
    assert nearest("qqq", ("micro_batch", "sequence")) is None


@pytest.mark.parametrize("kind", [whole(), whole(0), number(1), number(1, is_included=True)])
def test_more_than_any_machine_counts_is_refused(node_of, kind):
    mistakes = Mistakes()

    assert kind.read(node_of("1" + "0" * 400), "f", mistakes) is UNREADABLE
    assert mistakes.lines[0].startswith("f.yaml:1: f: 1000")
    with pytest.raises(UsageMistake, match=r"^f.yaml:1: 1000"):  # Python itself reads at most 4,300 digits
        node_of("1" + "0" * 5000)


def test_what_cannot_be_parsed_is_refused_with_the_parsers_message(node_of):
    mistakes = Mistakes()

    value = parsed("day", datetime.date.fromisoformat).read(node_of("'soon'"), "f", mistakes)

    assert value is UNREADABLE
    assert mistakes.lines == ["f.yaml:1: f: 'soon': Invalid isoformat string: 'soon'"]


@dataclass
class Described:
    size: int = described("How much.")
    name: str | None = described("Which.", None, "the file's name", kind=text("x"))
    flag: bool = described("Whether.", False)
    made: int = 3


def test_the_described_fields_of_a_dataclass_are_a_table():
    table = Table(fields_of(Described), what="key")

    assert [(one.name, one.default, one.required) for one in table.fields] == [
        ("size", "", True),
        ("name", "the file's name", False),
        ("flag", "false", False),
    ]
    assert (Described(2).name, Described(2).flag) == (None, False)


def test_a_missing_field_of_a_dataclass_is_a_mistake_with_its_meaning(node_of):
    mistakes = Mistakes()

    Table(fields_of(Described), what="key").read(node_of("{flag: true, nam: a}"), "f", mistakes)

    assert mistakes.lines == [
        "f.yaml:1: f.nam: a: there is no key nam in f; did you mean name?",
        "f.yaml:1: f.size is missing: How much.",
    ]
