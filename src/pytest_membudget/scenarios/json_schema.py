"""The JSON Schema of scenario files, from the one description: editors complete and check by it.

``python -m pytest_membudget.scenarios.json_schema`` writes it anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .schema import BUDGET

PATH = Path(__file__).with_name("membudget.schema.json")


def scenario_schema() -> dict[str, Any]:
    """The schema; draft 7, which editors for YAML read."""
    references = {one.name: {"$ref": f"#/definitions/{one.name}"} for one in BUDGET.fields}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Budgets of GPU memory (*.membudget.yaml)",
        "type": "object",
        "properties": {
            "defaults": {
                "description": "Fields of all budgets that do not say otherwise; null leaves one out there.",
                "type": ["object", "null"],
                "properties": {name: place for name, place in references.items() if name != "name"},
                "additionalProperties": False,
            },
            "budgets": {
                "description": "Each is a test, or one test for each point of its grid.",
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "properties": references,
                    "required": ["name"],
                    "additionalProperties": False,
                },
            },
        },
        "required": ["budgets"],
        "additionalProperties": False,
        "definitions": {one.name: one.json_schema() for one in BUDGET.fields},
    }


def schema_text() -> str:
    """The schema as its file has it."""
    return json.dumps(scenario_schema(), indent=1) + "\n"


if __name__ == "__main__":
    PATH.write_text(schema_text(), encoding="utf-8")
