"""Reads the model of a scenario: a configuration, a framework's arguments, or a shape."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import UsageMistake
from ..formulas.inputs import explicit, framework_arguments, hugging_face
from ..formulas.model import Model
from ..user_input.nodes import Node
from .parts import MODEL
from .reading import Written

#: Files whose contents a process keeps.
_KEPT = 256

#: Names and values of Megatron's arguments.
Arguments = tuple[tuple[str, Any], ...]


def model_of(name: str, arguments: Arguments, written: Written) -> Model | None:
    """The model that the field ``name`` names; None if it cannot be read.

    ``arguments`` of Megatron's are put over those that are written: they pad the vocabulary.
    """
    node, values = written.entry.fields[name], written.values[name]
    source = source_of(values)
    try:
        return _model(source, values[source], arguments if source == "megatron" else (), written.folder)
    except UsageMistake as error:
        written.mistakes.add(node.value[source] if isinstance(node.value, dict) else node, str(error))
        return None


@lru_cache(maxsize=_KEPT)
def _model(source: str, node: Node, arguments: Arguments, folder: Path) -> Model:
    """One that several scenarios name is read once: a node is the same wherever YAML refers to it."""
    where = f"model.{source}"
    if source == "megatron":
        known = {**megatron_arguments(node), **dict(arguments)}
        return framework_arguments.read_megatron(known, where=where)[0]
    if source == "torchtitan":
        titan = {"flavor": node.value} if isinstance(node.value, str) else node.plain
        return framework_arguments.read_torchtitan(titan, where=where)
    if source == "shape":
        return explicit.read_shape(node.plain, where=where)
    if isinstance(node.value, dict):
        return hugging_face.read_config(node.plain, where=where)
    path, changed = folder / node.value, None
    with suppress(OSError):  # one that has changed is read again
        changed = path.stat().st_mtime_ns
    return _model_of_file(path, changed)


def source_of(values: Mapping[str, Any]) -> str:
    """The field of ``model`` that is written."""
    [source] = [name for name in MODEL.one_of if name in values]
    return source


def megatron_arguments(node: Node) -> dict[str, Any]:
    """Arguments by their names on Megatron's command line, without dashes."""
    return {key.removeprefix("--").replace("_", "-"): value for key, value in node.plain.items()}


@lru_cache(maxsize=_KEPT)
def _model_of_file(path: Path, changed: int | None) -> Model:
    return hugging_face.model_of_path(path)
