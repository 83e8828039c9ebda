"""A value of a user's file, with the place where it stands and the way it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: Characters of a value that a message shows.
_SHOWN = 60


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One value. Two nodes are the same if they are one, so that what is made of one can be kept by it."""

    value: Any
    """A plain scalar, ``list[Node]`` or ``dict[str, Node]``."""
    file: str
    line: int
    """Of its key, where it has one."""
    written: str = ""
    """A scalar as it stands in the file."""

    @property
    def place(self) -> str:
        """``file:line``."""
        return f"{self.file}:{self.line}"

    @property
    def text(self) -> str:
        """The value as written; tables and lists on one line, long ones cut."""
        text = _flow(self)
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."

    @property
    def plain(self) -> Any:
        """The value without places: dicts, lists and scalars."""
        if isinstance(self.value, dict):
            return {key: node.plain for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain for node in self.value]
        return self.value


def _flow(node: Node, room: int = 2 * _SHOWN) -> str:
    """No longer than it needs to be: a file's anchors can make a value of any size."""
    if isinstance(node.value, dict):
        parts, left = [], room
        for key, child in node.value.items():
            parts.append(f"{key}: {_flow(child, left)}")
            left -= len(parts[-1])
            if left < 0:
                break
        return "{" + ", ".join(parts) + "}"
    if isinstance(node.value, list):
        parts, left = [], room
        for child in node.value:
            parts.append(_flow(child, left))
            left -= len(parts[-1])
            if left < 0:
                break
        return "[" + ", ".join(parts) + "]"
    return node.written[:room] if node.written else repr(node.value)
