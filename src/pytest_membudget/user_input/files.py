"""YAML files as nodes: plain, without Python's tags, each key once."""

import stat
from pathlib import Path
from typing import Any

from ..errors import UsageMistake
from .nodes import Node

_PLAIN = "tag:yaml.org,2002:"
_MERGE = f"{_PLAIN}merge"


def read_text(path: Path, shown: str) -> str:
    """The text of ``path``, which messages call ``shown``. Raises ``UsageMistake`` for other content."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a FIFO or a device: reading might never end
            raise UsageMistake(f"{shown}: this is no regular file; write the path of a text file")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageMistake(f"{shown}: the file cannot be read: {error}") from error


def read_yaml(path: Path, shown: str) -> Node | None:
    """The content of ``path``, which messages call ``shown``; None for an empty file.

    Raises ``UsageMistake`` with file and line for invalid YAML, duplicate keys, and keys that are no text.
    """
    import yaml  # imported only if there is such a file

    loader_class: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = read_text(path, shown)
    loader = None
    try:
        loader = loader_class(text)  # the pure-Python one also checks for invalid characters
        root = loader.get_single_node()
        return None if root is None else _Maker(loader, shown).node(root, root.start_mark.line + 1)
    except yaml.YAMLError as error:
        raise UsageMistake(f"{shown}{_place_and_problem(error)}") from error
    except RecursionError as error:
        raise UsageMistake(f"{shown}: nested too deeply") from error
    finally:
        if loader is not None:
            loader.dispose()


def _place_and_problem(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    parts = (getattr(error, "context", None), getattr(error, "problem", None))
    problem = ", ".join(part for part in parts if part) or " ".join(str(error).split())
    return f"{f':{mark.line + 1}' if mark is not None else ''}: this is no YAML: {problem}"


class _Maker:
    """Converts the loader's nodes to ours; a node with an anchor is made once."""

    def __init__(self, loader: Any, shown: str) -> None:
        self._loader = loader
        self._shown = shown
        self._made: dict[tuple[int, int], Node] = {}
        self._open: set[int] = set()

    def node(self, raw: Any, line: int) -> Node:
        """``raw`` as the value of a key at ``line``."""
        known = self._made.get((id(raw), line))
        if known is not None:
            return known
        if id(raw) in self._open:
            raise UsageMistake(f"{self._shown}:{line}: this value contains itself")
        self._open.add(id(raw))
        if raw.id == "scalar":
            # with quotes where it has some: they make a number a text
            written = repr(raw.value) if raw.style in ("'", '"') else str(raw.value)
            made = Node(self._scalar(raw, line), self._shown, line, written)
        elif raw.id == "sequence":
            made = Node([self.node(child, _line(child)) for child in raw.value], self._shown, line)
        else:
            made = Node(self._table(raw), self._shown, line)
        self._open.discard(id(raw))
        self._made[id(raw), line] = made
        return made

    def _scalar(self, raw: Any, line: int) -> Any:
        if not raw.tag.startswith(_PLAIN) or raw.tag.startswith(f"{_PLAIN}python"):
            raise UsageMistake(f"{self._shown}:{line}: {raw.tag} {raw.value}: write a value without a tag")
        try:
            return self._loader.construct_object(raw)
        except ValueError as error:  # a date that is none
            raise UsageMistake(f"{self._shown}:{line}: {raw.value[:60]}: {error}") from error

    def _table(self, raw: Any) -> dict[str, Node]:
        lines: dict[str, int] = {}
        for key, _ in raw.value:
            if key.tag == _MERGE:
                continue
            place = f"{self._shown}:{_line(key)}"
            if key.id != "scalar" or not isinstance(self._scalar(key, _line(key)), str):
                shown = key.value if key.id == "scalar" else "this key"
                raise UsageMistake(f"{place}: {shown}: a key is a text; write it in quotes")
            if key.value in lines:
                first = f"is there twice, in line {lines[key.value]} first"
                raise UsageMistake(f"{place}: {key.value} {first}; leave one of them out")
            lines[key.value] = _line(key)
        self._loader.flatten_mapping(raw)
        return {key.value: self.node(value, _line(key)) for key, value in raw.value}


def _line(raw: Any) -> int:
    return int(raw.start_mark.line) + 1
