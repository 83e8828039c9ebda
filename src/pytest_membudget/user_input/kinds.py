"""Kinds of values that fields take: their checks and their JSON Schemas."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..errors import UsageMistake
from .mistakes import UNREADABLE, Kind, Mistakes, nearest, no_such
from .nodes import Node

_A_TEXT: Final = {"type": "string", "pattern": r"\S"}


@dataclass(frozen=True, slots=True)
class Value:
    """A value that is accepted as written, or refused."""

    words: str
    """See ``Kind``."""
    takes: Callable[[Any], bool]
    schema: Mapping[str, Any]
    example: Any = None
    remedy: str = ""
    """What to write instead; empty: a value of ``words``."""
    is_node: bool = False
    """Whether another module checks its content, and reads the node."""

    def read(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """See ``Kind``."""
        if self.takes(node.value):
            return node if self.is_node else node.plain
        example = f", as in {node.example(name, self.example)}" if self.example is not None else ""
        return mistakes.refuse(node, name, f"write {self.wanted}{example}")

    @property
    def wanted(self) -> str:
        """What to write, with its article."""
        return self.remedy or f"a {self.words}"

    def json_schema(self) -> dict[str, Any]:
        """See ``Kind``."""
        return dict(self.schema)


def text(example: str) -> Value:
    """A text that is not empty."""
    return Value("text", is_text, _A_TEXT, example)


def whole(least: int = 1, *, example: int = 1, most: int | None = None, also: tuple[int, ...] = ()) -> Value:
    """A whole number of at least ``least``, or one of ``also``."""

    def takes(value: Any) -> bool:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return is_whole and (value in also or (value >= least and (most is None or value <= most)))

    limit = f"of at least {least}" if most is None else f"from {least} to {most}"
    schema: dict[str, Any] = {"type": "integer", "minimum": least}
    if most is not None:
        schema["maximum"] = most
    if also:
        schema = {"anyOf": [schema, {"enum": list(also)}]}
    return Value(" or ".join([f"whole number {limit}", *map(str, also)]), takes, schema, example)


def number(
    example: float, *, above: float = 0, is_included: bool = False, below: float = math.inf, unit: str = ""
) -> Value:
    """A finite number above ``above``, or from it on."""

    def takes(value: Any) -> bool:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return is_number and (above < value or (is_included and above == value)) and value < below

    low = f"from {above:g} on" if is_included else f"above {above:g}"
    high = f" and below {below:g}" if below < math.inf else ""
    schema = {"type": "number", "minimum" if is_included else "exclusiveMinimum": above}
    if below < math.inf:
        schema["exclusiveMaximum"] = below
    words = f"number{f' of {unit}' if unit else ''} {low}{high}"
    return Value(words, takes, schema, example, remedy=f"a finite {words}")


def texts(example: Mapping[str, str]) -> Value:
    """A table of texts by any keys."""

    def takes(value: Any) -> bool:
        return isinstance(value, dict) and all(isinstance(child.value, str) for child in value.values())

    schema = {"type": "object", "additionalProperties": {"type": "string"}}
    return Value("table of texts", takes, schema, dict(example))


def text_or_table(example: str) -> Value:
    """A text, or a table that another module checks: the path of a configuration, or its content."""

    def takes(value: Any) -> bool:
        return isinstance(value, (str, dict)) and bool(value)

    schema = {"anyOf": [_A_TEXT, TABLE.json_schema()]}
    return Value("text, or a table", takes, schema, example, is_node=True)


def is_text(value: object) -> bool:
    """Whether ``value`` is a text that is not empty."""
    return isinstance(value, str) and bool(value.strip())


FLAG: Final = Value(
    "`true` or `false`",
    lambda value: isinstance(value, bool),
    {"type": "boolean"},
    remedy="true or false",
)
TABLE: Final = Value(
    "table",
    lambda value: isinstance(value, dict) and bool(value),
    {"type": "object", "minProperties": 1},
    remedy="a table of keys and values",
    is_node=True,
)
"""A table that another module checks: a model's configuration."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A value with a grammar: ``parse`` reads it; the text of its error is the message."""

    words: str
    """See ``Kind``."""
    parse: Callable[[Any], Any]
    """Raises ``ValueError`` or ``UsageMistake``."""
    schema: Mapping[str, Any] = field(default_factory=lambda: _A_TEXT)

    def read(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """See ``Kind``: what ``parse`` makes of it."""
        try:
            return self.parse(node.plain)
        except (ValueError, UsageMistake) as error:
            return mistakes.refuse(node, name, str(error))

    def json_schema(self) -> dict[str, Any]:
        """See ``Kind``."""
        return dict(self.schema)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words or numbers."""

    values: tuple[str | int, ...]

    @property
    def words(self) -> str:
        """See ``Kind``."""
        return ", ".join(f"`{value}`" for value in self.values)

    @property
    def wanted(self) -> str:
        """What to write."""
        return f"one of {', '.join(map(str, self.values))}"

    def takes(self, value: object) -> bool:
        """Whether it is one of them."""
        return isinstance(value, (str, int)) and not isinstance(value, bool) and value in self.values

    def read(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """See ``Kind``."""
        if self.takes(node.value):
            return node.value
        near = nearest(str(node.value), [str(one) for one in self.values])
        remedy = f"{node.syntax.scalar(near)}; the values are" if near else "one of"
        return mistakes.refuse(
            node, name, f"write {remedy} {', '.join(node.syntax.scalar(one) for one in self.values)}"
        )

    def json_schema(self) -> dict[str, Any]:
        """See ``Kind``."""
        return {"enum": list(self.values)}


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list that is not empty, each value once; a single value is a list of one."""

    kind: Kind

    @property
    def words(self) -> str:
        """See ``Kind``."""
        return f"one or a list of: {self.kind.words}"

    def read(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """See ``Kind``."""
        nodes = node.value if isinstance(node.value, list) else [node]
        if not nodes:
            return mistakes.refuse(node, name, f"write a list with something in it, or leave {name} out")
        values = tuple(self.kind.read(child, name, mistakes) for child in nodes)
        if UNREADABLE in values:
            return UNREADABLE
        if len(set(values)) < len(values):
            return mistakes.refuse(node, name, "write each value once")
        return values

    def json_schema(self) -> dict[str, Any]:
        """See ``Kind``."""
        single = self.kind.json_schema()
        return {"anyOf": [single, {"type": "array", "items": single, "minItems": 1, "uniqueItems": True}]}


@dataclass(frozen=True, slots=True)
class Several:
    """A list, of ``count`` values if that is given."""

    kind: Kind
    example: list[Any]
    count: int | None = None

    @property
    def words(self) -> str:
        """See ``Kind``."""
        return f"list{f' of {self.count}' if self.count else ''}, each a {self.kind.words}"

    def read(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """See ``Kind``."""
        if not isinstance(node.value, list) or self.count not in (None, len(node.value)):
            return mistakes.refuse(
                node, name, f"write a {self.words}, as in {node.example(name, self.example)}"
            )
        values = [
            self.kind.read(child, f"{name}[{number}]", mistakes) for number, child in enumerate(node.value)
        ]
        return UNREADABLE if any(value is UNREADABLE for value in values) else values

    def json_schema(self) -> dict[str, Any]:
        """See ``Kind``."""
        limits = {"minItems": self.count, "maxItems": self.count} if self.count is not None else {}
        return {"type": "array", "items": self.kind.json_schema(), **limits}


@dataclass(frozen=True, slots=True)
class NumberTable:
    """A table of numbers by one of a few words."""

    keys: tuple[str, ...]
    kind: Value
    what: str = "key"
    """What the words of the table are."""

    @property
    def words(self) -> str:
        """See ``Kind``."""
        return f"table, each a {self.kind.words}"

    def read(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """See ``Kind``."""
        if not isinstance(node.value, dict) or not node.value:
            return mistakes.refuse(node, name, f"write a table, as in {self._example(node, name)}")
        before = len(mistakes)
        for key, child in node.value.items():
            inner = f"{name}.{key}"
            if key not in self.keys:
                mistakes.refuse(child, inner, no_such(str(key), self.keys, name, self.what))
            elif not self.kind.takes(child.value):
                remedy = f"write {self.kind.wanted}, as in {self._example(node, name, key)}"
                mistakes.refuse(child, inner, remedy)
        return node.plain if len(mistakes) == before else UNREADABLE

    def _example(self, node: Node, name: str, key: str = "") -> str:
        return node.example(name, {key or self.keys[0]: self.kind.example})

    def json_schema(self) -> dict[str, Any]:
        """See ``Kind``."""
        properties = {key: self.kind.json_schema() for key in self.keys}
        return {
            "type": "object",
            "properties": properties,
            "additionalProperties": False,
            "minProperties": 1,
        }
