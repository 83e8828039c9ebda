"""The JSON Schema of ``*.membudget.yaml``, from the one description of the fields; draft 7, for editors.

``python -m tests.scenarios.json_schema`` writes ``membudget.schema.json``.
"""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

from pytest_membudget.scenarios import schema
from pytest_membudget.scenarios.parts import GRID
from pytest_membudget.scenarios.schema import BUDGET, NOT_IN_DEFAULTS, SCRIPT
from pytest_membudget.user_input.fields import Field, Table

JSON_SCHEMA = Path(schema.__file__).with_name("membudget.schema.json")


def scenario_schema() -> dict[str, Any]:
    """The whole schema."""
    scenario, script = _references(BUDGET.fields), _references((*SCRIPT.fields, GRID), "script.")
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Budgets of GPU memory (*.membudget.yaml)",
        "type": "object",
        "properties": {
            "defaults": {
                "description": "Fields of all budgets that do not say otherwise; null leaves one out there.",
                "type": ["object", "null"],
                "properties": {
                    name: place
                    for name, place in {**script, **scenario}.items()
                    if name not in NOT_IN_DEFAULTS
                },
                "additionalProperties": False,
            },
            "budgets": {
                "description": "Each is a test, or one test for each point of its grid.",
                "type": "array",
                "minItems": 1,
                "items": {"if": {"required": ["script"]}, "then": _entry(script), "else": _entry(scenario)},
            },
        },
        "required": ["budgets"],
        "additionalProperties": False,
        "definitions": {
            **{one.name: _field(one) for one in BUDGET.fields},
            **{f"script.{one.name}": _field(one) for one in (*SCRIPT.fields, GRID)},
        },
    }


def _references(fields: tuple[Field, ...], before: str = "") -> dict[str, Any]:
    return {one.name: {"$ref": f"#/definitions/{before}{one.name}"} for one in fields}


def _entry(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": ["name"], "additionalProperties": False}


def _field(field: Field) -> dict[str, Any]:
    """The schema of its kind, with its meaning; null removes a field."""
    default = f" Default: {field.default}." if field.default else ""
    return {"description": f"{field.doc}{default}", "anyOf": [schema_of(field.kind), {"type": "null"}]}


def schema_of(kind: Any) -> Any:
    """What a kind takes; of a table nothing is required: the defaults of a file may have it."""
    if not isinstance(kind, Table):
        return kind.schema
    properties = {one.name: _field(one) for one in kind.fields}
    table = {"type": "object", "properties": properties, "additionalProperties": False}
    if kind.one_of:
        two = [
            {"required": list(pair), "properties": {key: {"not": {"type": "null"}} for key in pair}}
            for pair in combinations(kind.one_of, 2)
        ]
        table["not"] = {"anyOf": two}
    if kind.main is None:
        return table
    return {"anyOf": [{**kind.by_name[kind.main].kind.schema, "not": {"type": "object"}}, table]}


def schema_text() -> str:
    """The text of the schema's file."""
    return json.dumps(scenario_schema(), indent=1) + "\n"


if __name__ == "__main__":
    JSON_SCHEMA.write_text(schema_text(), encoding="utf-8")
