"""Mistakes: the errors in a user's values; Kind: the contract of kinds of values."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..errors import UsageMistake
from .nodes import Node

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

    @property
    def schema(self) -> Mapping[str, Any]:
        """The same as JSON Schema."""


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
