"""Kinds of values that fields take: how each is read, and how JSON Schema says it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .mistakes import UNREADABLE, Kind, Mistakes, nearest, no_such, refuse
from .nodes import Node


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
        if isinstance(node.value, dict) and all(
            isinstance(child.value, str) for child in node.value.values()
        ):
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
                mistakes.add(child, no_such(key, self.keys, name, "key"))
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
