"""Descriptions of fields, and values checked against them: the one place that says what a field takes."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Protocol

from .nodes import Node

#: Stands for a value that could not be read; what is wrong is among the mistakes.
UNREADABLE = object()


class Mistakes:
    """What is wrong with a user's values, each with its place."""

    def __init__(self) -> None:
        self._found: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def add(self, node: Node, what: str) -> object:
        """Note what is wrong at ``node``; the value to go on with."""
        self._found.setdefault(f"{node.place}: {what}", node.line)
        return UNREADABLE

    @property
    def lines(self) -> list[str]:
        """One a mistake, in the order of the file."""
        return sorted(self._found, key=self._found.__getitem__)


class Kind(Protocol):
    """What a field takes."""

    @property
    def words(self) -> str:
        """What it takes, for people: ``whole number of at least 1``."""

    def read(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """The plain value of ``node``, which is the value of ``name``; ``UNREADABLE`` if it is none."""

    def json_schema(self) -> dict[str, Any]:
        """The same as JSON Schema."""


def refuse(node: Node, name: str, remedy: str, mistakes: Mistakes) -> Any:
    """``name`` cannot have the value of ``node``; write what ``remedy`` says."""
    return mistakes.add(node, f"{name}: {node.text}: write {remedy}")


@dataclass(frozen=True, slots=True)
class Text:
    """A text that is not empty."""

    example: str

    @property
    def words(self) -> str:
        """As ``Kind`` has it."""
        return "text"

    def read(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """As ``Kind`` has it."""
        if isinstance(node.value, str) and node.value.strip():
            return node.value
        return refuse(node, name, f"a text, as in {name}: {self.example}", mistakes)

    def json_schema(self) -> dict[str, Any]:
        """As ``Kind`` has it."""
        return {"type": "string", "pattern": r"\S"}


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words or numbers."""

    values: tuple[str | int, ...]

    @property
    def words(self) -> str:
        """As ``Kind`` has it."""
        return ", ".join(f"`{value}`" for value in self.values)

    def read(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """As ``Kind`` has it."""
        if type(node.value) in (str, int) and node.value in self.values:
            return node.value
        words = [str(value) for value in self.values]
        near = nearest(str(node.value), words)
        remedy = f"{near}; the values are" if near else "one of"
        return refuse(node, name, f"{remedy} {', '.join(words)}", mistakes)

    def json_schema(self) -> dict[str, Any]:
        """As ``Kind`` has it."""
        return {"enum": list(self.values)}


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number of at least ``least``, or one of ``also``."""

    least: int = 1
    example: int = 1
    also: tuple[int, ...] = ()

    @property
    def words(self) -> str:
        """As ``Kind`` has it."""
        return " or ".join([f"whole number of at least {self.least}", *map(str, self.also)])

    def read(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """As ``Kind`` has it."""
        value = node.value
        if type(value) is int and (value >= self.least or value in self.also):
            return value
        return refuse(node, name, f"a {self.words}, as in {name}: {self.example}", mistakes)

    def json_schema(self) -> dict[str, Any]:
        """As ``Kind`` has it."""
        whole = {"type": "integer", "minimum": self.least}
        return {"anyOf": [whole, {"enum": list(self.also)}]} if self.also else whole


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number above ``above``, or from it on."""

    example: float
    above: float = 0
    is_included: bool = False
    below: float = math.inf
    unit: str = ""

    @property
    def words(self) -> str:
        """As ``Kind`` has it."""
        low = f"from {self.above:g} on" if self.is_included else f"above {self.above:g}"
        high = f" and below {self.below:g}" if self.below < math.inf else ""
        return f"number{f' of {self.unit}' if self.unit else ''} {low}{high}"

    def read(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """As ``Kind`` has it."""
        value = node.value
        if type(value) in (int, float) and self._is_in(value):
            return value
        return refuse(node, name, f"a {self.words}, as in {name}: {self.example:g}", mistakes)

    def _is_in(self, value: float) -> bool:
        return (self.above < value or (self.is_included and self.above == value)) and value < self.below

    def json_schema(self) -> dict[str, Any]:
        """As ``Kind`` has it."""
        low = {"minimum" if self.is_included else "exclusiveMinimum": self.above}
        high = {"exclusiveMaximum": self.below} if self.below < math.inf else {}
        return {"type": "number", **low, **high}


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    @property
    def words(self) -> str:
        """As ``Kind`` has it."""
        return "`true` or `false`"

    def read(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """As ``Kind`` has it."""
        if isinstance(node.value, bool):
            return node.value
        return refuse(node, name, "true or false", mistakes)

    def json_schema(self) -> dict[str, Any]:
        """As ``Kind`` has it."""
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list that is not empty, each value once; a single value stands for a list of it."""

    kind: Kind

    @property
    def words(self) -> str:
        """As ``Kind`` has it."""
        return f"one or a list of: {self.kind.words}"

    def read(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """As ``Kind`` has it."""
        nodes = node.value if isinstance(node.value, list) else [node]
        if not nodes:
            return refuse(node, name, f"a list with something in it, or leave {name} out", mistakes)
        values = tuple(self.kind.read(child, name, mistakes) for child in nodes)
        if UNREADABLE in values:
            return UNREADABLE
        if len(set(values)) < len(values):
            return refuse(node, name, "each value once", mistakes)
        return values

    def json_schema(self) -> dict[str, Any]:
        """As ``Kind`` has it."""
        single = self.kind.json_schema()
        return {"anyOf": [single, {"type": "array", "items": single, "minItems": 1, "uniqueItems": True}]}


@dataclass(frozen=True, slots=True)
class Several:
    """A list, of ``count`` values if that is given."""

    kind: Kind
    example: str
    count: int | None = None

    @property
    def words(self) -> str:
        """As ``Kind`` has it."""
        return f"list{f' of {self.count}' if self.count else ''}, each a {self.kind.words}"

    def read(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """As ``Kind`` has it."""
        if not isinstance(node.value, list) or self.count not in (None, len(node.value)):
            return refuse(node, name, f"a {self.words}, as in {name}: {self.example}", mistakes)
        values = [self.kind.read(child, name, mistakes) for child in node.value]
        return UNREADABLE if any(value is UNREADABLE for value in values) else values

    def json_schema(self) -> dict[str, Any]:
        """As ``Kind`` has it."""
        limits = {"minItems": self.count, "maxItems": self.count} if self.count is not None else {}
        return {"type": "array", "items": self.kind.json_schema(), **limits}


@dataclass(frozen=True, slots=True)
class Texts:
    """A table of texts by any keys."""

    example: str

    @property
    def words(self) -> str:
        """As ``Kind`` has it."""
        return "table of texts"

    def read(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """As ``Kind`` has it."""
        if isinstance(node.value, dict) and all(isinstance(child.value, str) for child in node.value.values()):
            return node.plain
        return refuse(node, name, f"a {self.words}, as in {name}: {self.example}", mistakes)

    def json_schema(self) -> dict[str, Any]:
        """As ``Kind`` has it."""
        return {"type": "object", "additionalProperties": {"type": "string"}}


@dataclass(frozen=True, slots=True)
class Anything:
    """A table of keys and values that someone else checks: a model's configuration."""

    @property
    def words(self) -> str:
        """As ``Kind`` has it."""
        return "table"

    def read(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """As ``Kind`` has it: the node itself, whose places the one who checks it may want to tell."""
        if isinstance(node.value, dict) and node.value:
            return node
        return refuse(node, name, "a table of keys and values", mistakes)

    def json_schema(self) -> dict[str, Any]:
        """As ``Kind`` has it."""
        return {"type": "object", "minProperties": 1}


@dataclass(frozen=True, slots=True)
class TextOrAnything:
    """A text, or a table that someone else checks: the path of a configuration, or its content."""

    example: str

    @property
    def words(self) -> str:
        """As ``Kind`` has it."""
        return "text, or a table"

    def read(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """As ``Kind`` has it: the node itself."""
        if node.value and isinstance(node.value, (str, dict)):
            return node
        return refuse(node, name, f"a text, as in {name}: {self.example}, or a table", mistakes)

    def json_schema(self) -> dict[str, Any]:
        """As ``Kind`` has it."""
        return {"anyOf": [Text(self.example).json_schema(), Anything().json_schema()]}


@dataclass(frozen=True, slots=True)
class Numbers:
    """A table of numbers by one of a few words."""

    keys: tuple[str, ...]
    kind: Number

    @property
    def words(self) -> str:
        """As ``Kind`` has it."""
        return f"table, each a {self.kind.words}"

    def read(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """As ``Kind`` has it."""
        if not isinstance(node.value, dict) or not node.value:
            example = f"{{{self.keys[0]}: {self.kind.example:g}}}"
            return refuse(node, name, f"a table, as in {name}: {example}", mistakes)
        values = {}
        for key, child in node.value.items():
            if key not in self.keys:
                mistakes.add(child, _no_such(key, self.keys, name, "key"))
            else:
                values[key] = self.kind.read(child, f"{name}.{key}", mistakes)
        return UNREADABLE if len(values) < len(node.value) or UNREADABLE in values.values() else values

    def json_schema(self) -> dict[str, Any]:
        """As ``Kind`` has it."""
        properties = {key: self.kind.json_schema() for key in self.keys}
        return {
            "type": "object",
            "properties": properties,
            "additionalProperties": False,
            "minProperties": 1,
        }


@dataclass(frozen=True, slots=True)
class Field:
    """One field: what it is called, takes and means."""

    name: str
    kind: Kind
    doc: str
    """A sentence or two; the schema, the docs and editors show it."""
    default: str = ""
    """What holds without it, in words; empty: nothing."""
    required: bool = False
    also_called: tuple[str, ...] = ()
    """What others call it: for the hint only, these names are not taken."""

    def json_schema(self) -> dict[str, Any]:
        """As ``Kind`` has it, with what it means; null leaves a field out."""
        default = f" Default: {self.default}." if self.default else ""
        return {"description": f"{self.doc}{default}", "anyOf": [self.kind.json_schema(), {"type": "null"}]}


@dataclass(frozen=True, slots=True)
class Table:
    """A table with described fields. A value that is no table stands for its field ``main``."""

    fields: tuple[Field, ...]
    main: str | None = None
    one_of: tuple[str, ...] = ()
    """Exactly one of these is to be written."""
    is_whole: bool = False
    """A table written anew replaces one of the defaults; otherwise its keys are put into that."""
    by_name: Mapping[str, Field] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {one.name: one for one in self.fields})

    @property
    def words(self) -> str:
        """As ``Kind`` has it."""
        return f"table; a single value is its `{self.main}`" if self.main else "table"

    def opened(self, node: Node) -> Mapping[str, Node] | None:
        """The fields of ``node`` as written, those that are null left out; None if it is no table."""
        if isinstance(node.value, dict):
            return {key: child for key, child in node.value.items() if child.value is not None}
        if self.main is not None and node.value is not None:
            return {self.main: node}
        return None

    def read(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """As ``Kind`` has it: a dict with the fields that are written."""
        written = self.opened(node)
        if written is None or (isinstance(node.value, list) and self.main is not None):
            return refuse(node, name, f"a table of {', '.join(self.by_name)}", mistakes)
        if not isinstance(node.value, dict) and self.main is not None:  # the short form is not its own name
            return self._only_main(node, name, mistakes)
        values = read_fields(self, written, node, f"{name}.", mistakes)
        return UNREADABLE if values is None else values

    def _only_main(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        assert self.main is not None
        value = self.by_name[self.main].kind.read(node, name, mistakes)
        if value is UNREADABLE:
            return UNREADABLE
        missing = [one.name for one in self.fields if one.required and one.name != self.main]
        if missing:
            return refuse(node, name, f"a table with {' and '.join(missing)}", mistakes)
        return {self.main: value}

    def json_schema(self) -> dict[str, Any]:
        """As ``Kind`` has it. Nothing is required: the defaults of a file may have it."""
        table: dict[str, Any] = {
            "type": "object",
            "properties": {one.name: one.json_schema() for one in self.fields},
            "additionalProperties": False,
        }
        if self.one_of:
            table["not"] = {"anyOf": [{"required": list(pair)} for pair in combinations(self.one_of, 2)]}
        if self.main is None:
            return table
        short = {**self.by_name[self.main].kind.json_schema(), "not": {"type": "object"}}
        return {"anyOf": [short, table]}


def read_fields(
    table: Table, written: Mapping[str, Node], place: Node, prefix: str, mistakes: Mistakes
) -> dict[str, Any] | None:
    """The plain values of ``written``, fields of ``table``; None if one of them cannot be read.

    ``place`` is where a field that is missing would stand, ``prefix`` what messages write before a name.
    """
    before = len(mistakes)
    values = {}
    for name, node in written.items():
        known = table.by_name.get(name)
        if known is None:
            mistakes.add(node, unknown_field(table, name, prefix))
        elif node.value is not None:
            values[name] = known.kind.read(node, f"{prefix}{name}", mistakes)
    names = [one.name for one in table.fields if one.required and written.get(one.name) is None]
    for name in names:
        mistakes.add(place, f"{prefix}{name} is missing: {table.by_name[name].doc}")
    if table.one_of and sum(name in written for name in table.one_of) != 1:
        choices = ", ".join(f"{prefix}{name}" for name in table.one_of)
        found = ", ".join(name for name in table.one_of if name in written) or "none of them is there"
        mistakes.add(place, f"write exactly one of {choices}: {found}")
    return values if len(mistakes) == before and UNREADABLE not in values.values() else None


def unknown_field(table: Table, name: str, prefix: str = "") -> str:
    """What to say of a key that is no field of ``table``."""
    for one in table.fields:
        if name in one.also_called:
            return f"there is no field {prefix}{name}; did you mean {prefix}{one.name}?"
    return _no_such(name, tuple(table.by_name), prefix.rstrip("."), "field")


def _no_such(key: str, keys: Sequence[str], name: str, what: str) -> str:
    near = nearest(key, keys)
    inside = f" in {name}" if name else ""
    hint = f"did you mean {near}?" if near else f"the {what}s are {', '.join(keys)}"
    return f"there is no {what} {key}{inside}; {hint}"


def nearest(word: str, words: Sequence[str]) -> str | None:
    """The one of ``words`` that ``word`` is most like; None if it is like none."""
    near = difflib.get_close_matches(word.lower(), words, n=1)
    return near[0] if near else None
