"""A table of a TOML file as nodes. The parser tells no lines: they are looked for in the text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .nodes import Node

_HEADER = re.compile(r"\s*\[\[?\s*(.+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(
    r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*="""
)
_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")

Path = tuple[str, ...]


def toml_nodes(value: Any, path: Path, text: str, file: str) -> Node:
    """``value``, which stands at ``path`` in the file's ``text``."""
    return _node(value, path, lines_of(text), file, 1)


def lines_of(text: str) -> Mapping[Path, int]:
    """The lines of the tables and keys of ``text``, but not of those inside of inline tables."""
    lines: dict[Path, int] = {}
    table: Path = ()
    for number, line in enumerate(text.splitlines(), start=1):
        header, key = _HEADER.match(line), _KEY.match(line)
        if header:
            table = _parts(header[1])
            lines.setdefault(table, number)
        elif key:
            lines.setdefault((*table, *_parts(key[1])), number)
    return lines


def _parts(text: str) -> Path:
    return tuple(part.strip("\"'") for part in _PART.findall(text))


def _node(value: Any, path: Path, lines: Mapping[Path, int], file: str, above: int) -> Node:
    line = lines.get(path, above)
    if isinstance(value, dict):
        value = {key: _node(child, (*path, key), lines, file, line) for key, child in value.items()}
    elif isinstance(value, list):
        value = [_node(child, path, lines, file, line) for child in value]
    return Node(value, file, line)
