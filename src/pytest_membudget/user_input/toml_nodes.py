"""Reads a table of a TOML file into nodes. The parser reports no lines: they are searched in the text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from .nodes import Node, Path, Syntax, nodes_of

_HEADER = re.compile(r"\s*\[(\[?)\s*(.+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(
    r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*="""
)
_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")


def toml_nodes(value: Any, path: Path, text: str, file: str, syntax: Syntax) -> Node:
    """``value``, which is at ``path`` in the file's ``text``; ``syntax`` is what messages write."""
    return nodes_of(value, Node(None, file, 1, syntax=syntax), path, _lines_of(text))


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
