"""The published JSON Schemas are those of the fields, and say of files what the checks say."""

import json
from importlib import resources
from pathlib import Path

import jsonschema
import pytest
import yaml

from pytest_membudget.gate.lock_file import lock_text
from pytest_membudget.results.comparison import LockEntry
from tests.json_schemas import SCHEMAS, report_keys, report_schema, schema_text
from tests.reporting.test_from_a_session import FILES

ROOT = Path(__file__).parents[1]


def validator(schema):
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def errors(schema, document):
    return [f"{error.json_path}: {error.message}" for error in validator(schema).iter_errors(document)]


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_packages_schemas_are_those_of_the_fields(name):
    file = resources.files("pytest_membudget").joinpath("schemas", name)

    assert file.read_text(encoding="utf-8") == schema_text(name), (
        "write it anew with python -m tests.json_schemas"
    )


def test_every_key_of_a_report_says_what_it_is():
    schema = report_schema()
    for name, one in [("Document", schema), *schema["definitions"].items()]:
        assert [key for key, value in one["properties"].items() if "description" not in value] == [], name


def test_a_report_has_eighty_names_of_keys():
    """A new one has to be worth it: what follows from others is no key, and one idea has one name."""
    assert len(report_keys()) == 80


EXAMPLES = sorted(
    path for folder in ("examples", "benchmarks") for path in (ROOT / folder).rglob("*.membudget.yaml")
)


def test_there_are_examples():
    assert len(EXAMPLES) >= 2


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_are_valid(path):
    assert errors(SCHEMAS["membudget.schema.json"](), yaml.safe_load(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "budgets: []",
        "budgets: [{}]",
        "budgets: [{name: a, gibb: 1}]",
        "budgets: [{name: a, gib: '1'}]",
        "budgets: [{name: a, micro_batch: 0}]",
        "budgets: [{name: a, optimizer: {name: adamm}}]",
        "budgets: [{name: a, optimizer: {nme: adam}}]",
        "budgets: [{name: a, model: {config: a, torchtitan: b}}]",
        "budgets: [{name: a, components: {activation: 1}}]",
        "budgets: [{name: a, offload: [parameters, parameters]}]",
        "defaults: {name: a}\nbudgets: [{name: a}]",
        "budgets: [{name: a}]\ngpu: T4",
    ],
)
def test_what_cannot_be_written_is_not_valid(text):
    assert errors(SCHEMAS["membudget.schema.json"](), yaml.safe_load(text))


RECORDED = LockEntry(
    2**30,
    "allocated",
    {"parameters": 2**30 + 512, "cached": -512},
    gpus=1,
    gpu="T4",
    device="stand-in",
    torch="2.13.0+cu130",
    held_bytes=0,
)
BY_HAND = LockEntry(2**30, until="2026-12-31", reason="a new optimizer")


def test_a_lock_file_is_valid():
    written = yaml.safe_load(lock_text({"a.py::test_a": RECORDED, "b.py::test_b": BY_HAND}))

    assert set(written["tests"]) == {"a.py::test_a", "b.py::test_b"}
    assert errors(SCHEMAS["lock.schema.json"](), written) == []
    assert errors(SCHEMAS["lock.schema.json"](), yaml.safe_load(lock_text({}))) == []


@pytest.mark.parametrize(
    "change", [{"byte": 1}, {"bytes": -1}, {"components": {"activation": 1}}, {"torch": None, "until": None}]
)
def test_what_a_lock_file_cannot_have_is_not_valid(change):
    entry = {"bytes": 1, "until": "2026-12-31", "reason": "a", **change}
    if None in change.values():
        entry = {"bytes": 1, "reason": "a"}

    assert errors(SCHEMAS["lock.schema.json"](), {"version": 1, "tests": {"a": entry}})
    assert errors(SCHEMAS["lock.schema.json"](), {"version": 1, "tests": {}, "test": {}})


#: Those of a session with every verdict, and one whose budget is in the lock file.
WITH_LOCKED = {
    **FILES,
    "test_locked.py": """
        import pytest
        from holding import hold

        @pytest.mark.mem_budget
        def test_recorded():
            hold(1)
        """,
}


@pytest.fixture(scope="module")
def written(session_of):
    """A report of a session with a base, and a lock file that it has written."""
    base = session_of(WITH_LOCKED, "--membudget")
    compare = f"--membudget-compare={base.report_path}"
    run = session_of(WITH_LOCKED, "--membudget", "--membudget-update", compare)
    return json.loads(run.report_path.read_text(encoding="utf-8"))


def test_a_sessions_report_is_valid_and_has_no_other_keys(written):
    assert errors(report_schema(is_closed=True), written) == []
    rows = written["tests"]
    assert {row["verdict"] for row in rows} == {"within", "over", "error"}
    assert any(row["comparison"] for row in rows)
    assert any(row["lock"] for row in rows)


@pytest.mark.parametrize(
    ("key", "value"), [("verdict", "fine"), ("location", 1), ("estimates", {}), ("limit_bytes", -1)]
)
def test_a_report_of_other_values_is_not_valid(written, key, value):
    broken = {**written, "tests": [{**written["tests"][0], key: value}]}

    assert errors(report_schema(), broken)
    assert errors(report_schema(), {**written, "schema_version": 1})


def test_a_later_versions_keys_are_no_errors(written):
    assert errors(report_schema(), {**written, "added": 1}) == []
