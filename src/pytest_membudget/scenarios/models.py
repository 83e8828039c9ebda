"""Reads the model of a scenario: a configuration, a framework's arguments, or a shape."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import UsageMistake
from ..formulas.model import Model
from ..user_input.nodes import Node
from .grid import Written
from .parts import MODEL

#: Files whose contents a process keeps.
_KEPT = 256

#: Names and values of Megatron's arguments.
Arguments = tuple[tuple[str, Any], ...]


class ModelReader:
    """Reads the models of one scenario file; one that several scenarios name is read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[tuple[Node, Arguments], Model | UsageMistake] = {}

    def model_of(self, name: str, arguments: Arguments, written: Written) -> Model | None:
        """The model that the field ``name`` names; None if it cannot be read.

        ``arguments`` of Megatron's are put over those that are written: they pad the vocabulary.
        """
        node, values = written.point.fields[name], written.values[name]
        source = source_of(values)
        key = (node, arguments if source == "megatron" else ())
        if key not in self._read:
            try:
                self._read[key] = self._model(source, values[source], arguments)
            except UsageMistake as error:
                self._read[key] = error
        found = self._read[key]
        if isinstance(found, Model):
            return found
        place = node.value[source] if isinstance(node.value, dict) else node
        written.mistakes.add(place, str(found))
        return None

    def _model(self, source: str, node: Node, arguments: Arguments) -> Model:
        where = f"model.{source}"
        if source == "config":
            return self._from_config(node, where)
        if source == "megatron":
            from ..formulas.inputs.framework_arguments import read_megatron

            return read_megatron({**megatron_arguments(node), **dict(arguments)}, where=where)[0]
        if source == "torchtitan":
            from ..formulas.inputs.framework_arguments import read_torchtitan

            written = {"flavor": node.value} if isinstance(node.value, str) else node.plain
            return read_torchtitan(written, where=where)
        from ..formulas.inputs.explicit import read_shape

        return read_shape(node.plain, where=where)

    def _from_config(self, node: Node, where: str) -> Model:
        if isinstance(node.value, dict):
            from ..formulas.inputs.hugging_face import read_config

            return read_config(node.plain, where=where)
        path = self._folder / node.value
        return _model_of_file(path, _changed(path))


def source_of(values: Mapping[str, Any]) -> str:
    """The field of ``model`` that is written."""
    [source] = [name for name in MODEL.one_of if name in values]
    return source


def megatron_arguments(node: Node) -> dict[str, Any]:
    """Arguments by their names on Megatron's command line, without dashes."""
    return {key.removeprefix("--").replace("_", "-"): value for key, value in node.plain.items()}


def _changed(path: Path) -> int | None:
    """The modification time of ``path``: a file that has changed is read again."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


@lru_cache(maxsize=_KEPT)
def _model_of_file(path: Path, changed: int | None) -> Model:
    from ..formulas.inputs.hugging_face import model_of_path

    return model_of_path(path)
