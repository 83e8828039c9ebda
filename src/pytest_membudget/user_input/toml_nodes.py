"""Reads a table of a TOML file into nodes. The parser reports no lines: they are searched in the text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from .nodes import Node, Syntax

_HEADER = re.compile(r"\s*\[(\[?)\s*(.+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(
    r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*="""
)
_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")

Path = tuple[str | int, ...]


def toml_nodes(value: Any, path: Path, text: str, file: str, syntax: Syntax) -> Node:
    """``value``, which is at ``path`` in the file's ``text``; ``syntax`` is what messages write."""
    lines = _lines_of(text)

    def node(value: Any, path: Path, above: int) -> Node:
        line = lines.get(path, above)
        if isinstance(value, dict):
            value = {key: node(child, (*path, key), line) for key, child in value.items()}
        elif isinstance(value, list):
            value = [node(child, (*path, number), line) for number, child in enumerate(value)]
        return Node(value, file, line, syntax=syntax)

    return node(value, path, 1)


def _lines_of(text: str) -> Mapping[Path, int]:
    """The lines of the tables and keys of ``text``, but not of those inside of inline tables."""
    lines: dict[Path, int] = {}
    table: Path = ()
    seen = Counter[Path]()
    for number, line in enumerate(text.splitlines(), start=1):
        header, key = _HEADER.match(line), _KEY.match(line)
        if header:
            table = _parts(header[2])
            if header[1]:  # one of several: [[waivers]]
                lines.setdefault(table, number)
                seen[table] += 1
                table = (*table, seen[table] - 1)
            lines.setdefault(table, number)
        elif key:
            lines.setdefault((*table, *_parts(key[1])), number)
    return lines


def _parts(text: str) -> Path:
    return tuple(part.strip("\"'") for part in _PART.findall(text))
