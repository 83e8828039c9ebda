"""The JSON Schemas of ``*.membudget.yaml``, of the lock file and of report.json; draft 7, for editors.

They are made of the one description of fields that the checks have. ``python -m tests.json_schemas`` writes
``pytest_membudget/schemas``.
"""

import ast
import dataclasses
import functools
import inspect
import json
import re
import sys
from collections.abc import Mapping
from itertools import combinations, pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import pytest_membudget
from pytest_membudget.caveats import Cause
from pytest_membudget.gate import lock_file
from pytest_membudget.json_object import PLAIN, Word
from pytest_membudget.reporting.document import SCHEMA_VERSION, Document
from pytest_membudget.results.comparison import LockEntry
from pytest_membudget.scenarios.schema import BUDGET, GRID, NOT_IN_DEFAULTS, SCRIPT
from pytest_membudget.user_input.fields import Field, Table, fields_of
from pytest_membudget.user_input.kinds import Value

FOLDER = Path(pytest_membudget.__file__).with_name("schemas")
_DRAFT = {"$schema": "http://json-schema.org/draft-07/schema#"}
_NULL = {"type": "null"}


# What users write


def scenario_schema() -> dict[str, Any]:
    """Of ``*.membudget.yaml``."""
    scenario, script = _references(BUDGET.fields), _references((*SCRIPT.fields, GRID), "script.")
    return {
        **_DRAFT,
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


def lock_schema() -> dict[str, Any]:
    """Of ``membudget.lock.yaml``: an entry was recorded, or is written by hand until a day."""
    entry = schema_of(Table(fields_of(LockEntry), what="key"))
    recorded, by_hand = ["bytes", *lock_file.FACTS, "components"], ["bytes", "until", "reason"]
    return {
        **_DRAFT,
        "title": "GPU memory of tests without gib (membudget.lock.yaml)",
        "type": "object",
        "properties": {
            "version": {"const": lock_file.VERSION},
            "tests": {
                "description": "Entries by node id.",
                "type": ["object", "null"],
                "additionalProperties": {**entry, "anyOf": [{"required": recorded}, {"required": by_hand}]},
            },
        },
        "required": ["version", "tests"],
        "additionalProperties": False,
    }


def _references(fields: tuple[Field, ...], before: str = "") -> dict[str, Any]:
    return {one.name: {"$ref": f"#/definitions/{before}{one.name}"} for one in fields}


def _entry(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": ["name"], "additionalProperties": False}


def _field(field: Field) -> dict[str, Any]:
    """The schema of its kind, with its meaning; null removes a field."""
    default = f" Default: {field.default}." if field.default else ""
    return {"description": f"{field.doc}{default}", "anyOf": [schema_of(field.kind), _NULL]}


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


# What is written


def report_schema(*, is_closed: bool = False) -> dict[str, Any]:
    """Of report.json. ``is_closed``: without keys of later versions, which readers have to leave out."""
    found: dict[type, dict[str, Any]] = {}
    _add_class(Document, found)
    definitions = {cls.__name__: schema for cls, schema in found.items()}
    version = definitions["Document"]["properties"]["schema_version"]
    definitions["Document"]["properties"]["schema_version"] = {
        "description": version["description"],
        "const": SCHEMA_VERSION,
    }
    if is_closed:
        for schema in definitions.values():
            schema["additionalProperties"] = False
    title = "GPU memory of tests with budgets (report.json)"
    return {**_DRAFT, "title": title, **definitions.pop("Document"), "definitions": definitions}


def report_keys() -> set[str]:
    """The names of all keys of report.json; those of tables by component, metric and the like are values."""
    schema = report_schema()
    return {key for one in (schema, *schema["definitions"].values()) for key in one["properties"]}


def _add_class(cls: type, found: dict[type, dict[str, Any]]) -> None:
    found[cls] = {}
    hints, docs = get_type_hints(cls, include_extras=True), _docs(cls)
    fields = [field for field in dataclasses.fields(cls) if field.name not in getattr(cls, "unreported", ())]
    required = [
        field.name
        for field in fields
        if field.name in cls.required or field.default is field.default_factory is dataclasses.MISSING
    ]
    properties = {field.name: _hinted(hints[field.name], found) for field in fields}
    for name in cls.derived:
        properties[name] = _hinted(get_type_hints(getattr(cls, name).fget)["return"], found)
    for name, doc in docs.items():
        if name in properties:
            described = {"allOf": [properties[name]]} if "$ref" in properties[name] else properties[name]
            properties[name] = {"description": doc, **described}
    found[cls] = {
        "description": _plain(inspect.getdoc(cls) or ""),
        "type": "object",
        "properties": properties,
    }
    if required:
        found[cls]["required"] = required


def _hinted(hint: Any, found: dict[type, dict[str, Any]], note: Any = None) -> dict[str, Any]:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _hinted(args[0], found, args[1])
    if origin in (Union, UnionType):
        inner = _hinted(next(arg for arg in args if arg is not NoneType), found)
        return {**inner, "type": [inner["type"], "null"]} if "type" in inner else {"anyOf": [inner, _NULL]}
    if origin is tuple and args[-1] is Ellipsis:
        return {"type": "array", "items": _hinted(args[0], found)}
    if origin is tuple:
        items = [_hinted(arg, found) for arg in args]
        return {"type": "array", "items": items, "minItems": len(items), "maxItems": len(items)}
    if origin is Mapping:
        table = {"type": "object", "additionalProperties": _hinted(args[1], found)}
        return {**table, "propertyNames": get_args(Word)[1].schema} if args[0] is Word else table
    if hint is Cause:
        return dict(get_args(Word)[1].schema)
    if dataclasses.is_dataclass(hint):
        if hint not in found:
            _add_class(hint, found)
        return {"$ref": f"#/definitions/{hint.__name__}"}
    kind = note if isinstance(note, Value) else PLAIN.get(hint)
    if isinstance(kind, Value):
        return dict(kind.schema)
    return {"type": "string"} if hint is str else {}


def _docs(cls: type) -> dict[str, str]:
    """What a class says of its fields and properties, in one line each."""
    said = {}
    said |= {one.name: one.doc for one in fields_of(cls)}
    for name in cls.derived:
        said[name] = inspect.getdoc(getattr(cls, name))
    body = _module(cls.__module__)[cls.__name__].body
    for one, after in pairwise(body):
        is_doc = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if isinstance(one, ast.AnnAssign) and is_doc:
            said[one.target.id] = after.value.value
    return {name: _plain(doc) for name, doc in said.items()}


def _plain(doc: str) -> str:
    """A docstring as users of JSON read it."""
    text = re.sub(r"\bNone\b", "null", doc.replace("``", "`"))
    return " ".join(re.sub(r"\b(True|False)\b", lambda word: word[0].lower(), text).split())


@functools.cache
def _module(name: str) -> dict[str, ast.ClassDef]:
    tree = ast.parse(Path(sys.modules[name].__file__).read_text(encoding="utf-8"))
    return {one.name: one for one in tree.body if isinstance(one, ast.ClassDef)}


SCHEMAS = {
    "membudget.schema.json": scenario_schema,
    "lock.schema.json": lock_schema,
    "report.schema.json": report_schema,
}


def schema_text(name: str) -> str:
    """The text of a schema's file."""
    return json.dumps(SCHEMAS[name](), indent=1) + "\n"


if __name__ == "__main__":
    for name in SCHEMAS:
        (FOLDER / name).write_text(schema_text(name), encoding="utf-8")
