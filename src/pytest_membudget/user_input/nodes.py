"""Node: a value that a user has written, with its place and its syntax."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

#: Most characters of a value that a message shows.
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Syntax:
    """How one kind of source writes a field and its value; messages repeat it."""

    pair: str
    """A field and its value."""
    entry: str
    """The same inside of a table."""
    scalar: Callable[[Any], str]
    before: str = ""
    """What names the table of a field."""

    def text(self, value: Any) -> str:
        """``value``, a ``Node`` or plain, on one line; a long one cut."""
        text = _flow(self, value, 2 * _SHOWN)
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _flow(syntax: Syntax, value: Any, room: int) -> str:
    """A text of ``value``, cut early: anchors in a file can make a value of any size."""
    if isinstance(value, Node):
        if value.written:
            return value.written[:room]
        value = value.value
    if not isinstance(value, (dict, list)):
        return syntax.scalar(value)
    parts: list[str] = []
    for key, child in value.items() if isinstance(value, dict) else enumerate(value):
        part = _flow(syntax, child, room)
        parts.append(syntax.entry.format(key, part) if isinstance(value, dict) else part)
        room -= len(parts[-1])
        if room < 0:
            break
    inside = ", ".join(parts)
    return f"{{{inside}}}" if isinstance(value, dict) else f"[{inside}]"


def _bare(value: Any) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(value: Any) -> str:
    return repr(value) if isinstance(value, str) else _bare(value)


YAML: Final = Syntax("{}: {}", "{}: {}", _bare)
TOML: Final = Syntax("{} = {}", "{} = {}", _quoted)
PYTHON: Final = Syntax("{}={}", "{!r}: {}", repr)


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One value. Nodes are compared by identity, so that results can be cached by node."""

    value: Any
    """A plain scalar, ``list[Node]`` or ``dict[str, Node]``."""
    file: str
    """Its path; for a mark or an option, that as written."""
    line: int = 0
    """Of its key, where it has one; 0 if ``file`` names the field with its value."""
    written: str = ""
    """A scalar as it is in the file."""
    syntax: Syntax = YAML

    @property
    def place(self) -> str:
        """``file:line``."""
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def text(self) -> str:
        """The value as written; tables and lists on one line, long ones cut."""
        return self.syntax.text(self)

    @property
    def plain(self) -> Any:
        """The value without places: dicts, lists and scalars."""
        if isinstance(self.value, dict):
            return {key: node.plain for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain for node in self.value]
        return self.value

    def example(self, name: str, value: Any) -> str:
        """``value`` for the field ``name``, as it is written here."""
        return self.syntax.pair.format(name, self.syntax.text(value))

    def field(self, name: str) -> str:
        """The field ``name`` with this value as written, up to what is wrong with it."""
        return f"{self.syntax.before}{self.example(name, self)}: " if self.line else ""
