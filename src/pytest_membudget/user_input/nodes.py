"""Node: a value that a user has written, with its place and its syntax; Mistakes: what is wrong with it."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from ..errors import UsageMistake

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
    """One value. Nodes are compared by identity: YAML may refer to one of any size many times."""

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


def nodes_of(value: Any, above: Node) -> Node:
    """A plain ``value`` and what is in it, at the place of ``above``."""
    if isinstance(value, Mapping):
        value = {key: nodes_of(child, above) for key, child in value.items()}
    elif isinstance(value, (list, tuple)):
        value = [nodes_of(child, above) for child in value]
    return replace(above, value=value)


#: Replaces a value that could not be read; the reason is among the mistakes.
UNREADABLE = object()


class Mistakes:
    """Collects the errors in a user's values, each with its place."""

    def __init__(self) -> None:
        self._found: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._found)

    def add(self, node: Node, what: str) -> object:
        """Record an error at ``node``; returns ``UNREADABLE``."""
        self._found.setdefault(f"{node.place}: {what}", node.line)
        return UNREADABLE

    def refuse(self, node: Node, name: str, what: str) -> object:
        """Record an error in the value of ``node``, of the field ``name``."""
        return self.add(node, f"{node.field(name)}{what}")

    @property
    def lines(self) -> list[str]:
        """One message for each mistake, in the order of the file."""
        return sorted(self._found, key=self._found.__getitem__)

    def raise_all(self) -> None:
        """Raise ``UsageMistake`` with a line for each mistake, if there is one."""
        if self._found:
            raise UsageMistake("\n".join(self.lines))


class Kind(Protocol):
    """The values that a field takes."""

    @property
    def words(self) -> str:
        """What it takes, for people: ``whole number of at least 1``."""

    def read(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """The plain value of ``node``, which is the value of ``name``; ``UNREADABLE`` if it is none."""


def no_such(key: str, keys: Sequence[str], name: str, what: str) -> str:
    """The message for ``key``, which is none of the ``keys`` of ``name``."""
    near = nearest(key, keys)
    inside = f" in {name}" if name else ""
    hint = f"did you mean {near}?" if near else f"the {what}s are {', '.join(keys)}"
    return f"there is no {what} {key}{inside}; {hint}"


def nearest(word: str, words: Sequence[str]) -> str | None:
    """The one of ``words`` that is most similar to ``word``; None if none is."""
    near = difflib.get_close_matches(word.lower(), words, n=1)
    return near[0] if near else None
