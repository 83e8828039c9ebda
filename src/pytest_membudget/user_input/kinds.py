"""Kinds of values that fields take: their checks and their JSON Schemas."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..errors import UsageMistake
from .nodes import UNREADABLE, Kind, Mistakes, Node, nearest, no_such

#: Above what any machine counts, and what floating-point numbers take.
_LARGEST: Final = 2**63 - 1
_A_TEXT: Final = {"type": "string", "pattern": r"\S"}


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A value that is accepted as written, or refused. ``words`` and ``read``: see ``Kind``."""

    words: str
    takes: Callable[[Any], bool]
    schema: Mapping[str, Any]
    """The same as JSON Schema, for editors; empty for what scenario files do not have."""
    wanted: str
    """What to write instead, with its article."""
    example: Any = None
    choices: tuple[str | int, ...] = ()
    """All values there are, if they are few."""
    is_node: bool = False
    """Whether another module checks its content, and reads the node."""

    def read(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """The value, or a mistake with what to write."""
        if self.takes(node.value):
            return node if self.is_node else node.plain
        remedy = self.wanted
        if self.choices:
            near = nearest(str(node.value), [str(one) for one in self.choices])
            start = f"{node.syntax.scalar(near)}; the values are" if near else "one of"
            remedy = f"{start} {', '.join(map(node.syntax.scalar, self.choices))}"
        elif self.example is not None:
            remedy += f", as in {node.example(name, self.example)}"
        return mistakes.refuse(node, name, f"write {remedy}")


def text(example: str) -> Value:
    """A text that is not empty."""
    return Value("text", is_text, _A_TEXT, "a text", example)


def is_text(value: object) -> bool:
    """Whether ``value`` is a text that is not empty."""
    return isinstance(value, str) and bool(value.strip())


def whole(least: int = 1, *, example: int = 1, most: int | None = None, also: tuple[int, ...] = ()) -> Value:
    """A whole number of at least ``least``, or one of ``also``."""

    def takes(value: Any) -> bool:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        largest = _LARGEST if most is None else most
        return is_whole and (value in also or least <= value <= largest)

    limit = f"of at least {least}" if most is None else f"from {least} to {most}"
    schema: dict[str, Any] = {"type": "integer", "minimum": least}
    if most is not None:
        schema["maximum"] = most
    if also:
        schema = {"anyOf": [schema, {"enum": list(also)}]}
    words = " or ".join([f"whole number {limit}", *map(str, also)])
    return Value(words, takes, schema, f"a {words}", example)


def number(example: float, *, is_included: bool = False, below: float = math.inf, unit: str = "") -> Value:
    """A finite number above 0, or from 0 on."""

    def takes(value: Any) -> bool:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return is_number and (value > 0 or (is_included and value == 0)) and value < min(below, _LARGEST)

    low = "from 0 on" if is_included else "above 0"
    high = f" and below {below:g}" if below < math.inf else ""
    schema = {"type": "number", "minimum" if is_included else "exclusiveMinimum": 0}
    if below < math.inf:
        schema["exclusiveMaximum"] = below
    words = f"number{f' of {unit}' if unit else ''} {low}{high}"
    return Value(words, takes, schema, f"a finite {words}", example)


def choice(values: tuple[str | int, ...]) -> Value:
    """One of a few words or numbers."""

    def takes(value: object) -> bool:
        return isinstance(value, (str, int)) and not isinstance(value, bool) and value in values

    words = ", ".join(f"`{value}`" for value in values)
    wanted = f"one of {', '.join(map(str, values))}"
    return Value(words, takes, {"enum": list(values)}, wanted, choices=values)


FLAG: Final = Value(
    "`true` or `false`", lambda value: isinstance(value, bool), {"type": "boolean"}, "true or false"
)
TABLE: Final = Value(
    "table",
    lambda value: isinstance(value, dict) and bool(value),
    {"type": "object", "minProperties": 1},
    "a table of keys and values",
    is_node=True,
)
"""A table that another module checks: a model's configuration."""


def text_or_table(example: str) -> Value:
    """A text, or a table that another module checks: the path of a configuration, or its content."""
    return Value(
        "text, or a table",
        lambda value: isinstance(value, (str, dict)) and bool(value),
        {"anyOf": [_A_TEXT, TABLE.schema]},
        "a text, or a table",
        example,
        is_node=True,
    )


@dataclass(frozen=True, slots=True)
class Composed:
    """A value that is made of what is written. See ``Kind`` and ``Value``."""

    words: str
    schema: Mapping[str, Any]
    read: Callable[[Node, str, Mistakes], Any]
    has_keys: bool = False
    """Whether it is a table, each of whose keys has one value."""


def parsed(words: str, parse: Callable[[Any], Any], schema: Mapping[str, Any] = _A_TEXT) -> Composed:
    """A value with a grammar. ``parse`` raises ``ValueError`` or ``UsageMistake`` with what to write."""

    def read(node: Node, name: str, mistakes: Mistakes) -> Any:
        try:
            return parse(node.plain)
        except (ValueError, UsageMistake) as error:
            return mistakes.refuse(node, name, str(error))

    return Composed(words, schema, read)


def list_of(kind: Value) -> Composed:
    """A list that is not empty, each value once; a single value is a list of one."""

    def read(node: Node, name: str, mistakes: Mistakes) -> Any:
        nodes = node.value if isinstance(node.value, list) else [node]
        if not nodes:
            return mistakes.refuse(node, name, f"write a list with something in it, or leave {name} out")
        values = tuple(kind.read(child, name, mistakes) for child in nodes)
        if UNREADABLE in values:
            return UNREADABLE
        if len(set(values)) < len(values):
            return mistakes.refuse(node, name, "write each value once")
        return values

    several = {"type": "array", "items": kind.schema, "minItems": 1, "uniqueItems": True}
    return Composed(f"one or a list of: {kind.words}", {"anyOf": [kind.schema, several]}, read)


def several(kind: Kind, example: list[Any]) -> Composed:
    """A list of as many values as ``example`` has."""
    words = f"list of {len(example)}, each a {kind.words}"

    def read(node: Node, name: str, mistakes: Mistakes) -> Any:
        if not isinstance(node.value, list) or len(node.value) != len(example):
            return mistakes.refuse(node, name, f"write a {words}, as in {node.example(name, example)}")
        values = [kind.read(child, f"{name}[{place}]", mistakes) for place, child in enumerate(node.value)]
        return UNREADABLE if any(value is UNREADABLE for value in values) else values

    return Composed(words, {}, read)


def number_table(keys: tuple[str, ...], kind: Value, what: str = "key") -> Composed:
    """A table of numbers by one of a few words; ``what`` these words are."""

    def read(node: Node, name: str, mistakes: Mistakes) -> Any:
        if not isinstance(node.value, dict) or not node.value:
            example = node.example(name, {keys[0]: kind.example})
            return mistakes.refuse(node, name, f"write a table, as in {example}")
        before = len(mistakes)
        for key, child in node.value.items():
            if key not in keys:
                mistakes.refuse(child, f"{name}.{key}", no_such(str(key), keys, name, what))
            elif not kind.takes(child.value):
                example = node.example(name, {key: kind.example})
                mistakes.refuse(child, f"{name}.{key}", f"write {kind.wanted}, as in {example}")
        return node.plain if len(mistakes) == before else UNREADABLE

    properties = dict.fromkeys(keys, kind.schema)
    schema = {"type": "object", "properties": properties, "additionalProperties": False, "minProperties": 1}
    return Composed(f"table, each a {kind.words}", schema, read, has_keys=True)
