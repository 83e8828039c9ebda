"""The models that a scenario names, with the content that says their shapes."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ..errors import UsageMistake
from .job import Implementation, Model, Source
from .reading import Written

#: Whose code runs a model where the scenario does not say it.
_USUAL: Final[Mapping[Source, Implementation]] = {
    "config": "transformers",
    "torchtitan": "torchtitan",
    "megatron": "megatron",
    "shape": "plain",
}
#: What else can run it: ``formulas`` compute any.
_RUNS: Final[Mapping[Source, tuple[Implementation, ...]]] = {
    **{source: (usual, "formulas") for source, usual in _USUAL.items()},
    "config": ("transformers", "plain", "formulas"),
}
_CONFIG: Final = "config.json"


def model_of(name: str, written: Written) -> Model | None:
    """The model that the field ``name`` names; None, and a mistake, if it cannot be read."""
    node, values = written.entry.fields[name], written.values[name]
    [source] = [one for one in _USUAL if one in values]
    try:
        return _model(source, values[source], written.folder)
    except UsageMistake as error:
        place = node.value[source] if isinstance(node.value, dict) else node
        written.mistakes.refuse(place, f"{name}.{source}", str(error))
        return None


def implementation_of(model: Model, written: Written) -> Implementation:
    """Whose code runs ``model``; a mistake if that code cannot."""
    named: Implementation | None = written.values.get("implementation")
    runs = _RUNS[model.source]
    if named is not None and named not in runs:
        written.refuse("implementation", f"{named} runs no model.{model.source}; write {' or '.join(runs)}")
    return named or _USUAL[model.source]


def _model(source: Source, written: Any, folder: Path) -> Model:
    if source == "config" and not isinstance(written.value, dict):
        path = folder / written.value
        path = path / _CONFIG if path.is_dir() else path
        name = path.parent.name if path.name == _CONFIG else path.name.removesuffix(".json")
        return Model(source, name, json.dumps(_read(path)))
    if source == "torchtitan":
        return Model(source, written, json.dumps(written))
    content = written.plain
    if source == "megatron":
        content = {key.removeprefix("--").replace("_", "-"): value for key, value in content.items()}
    if source == "config":
        _check(content)
    return Model(source, source, json.dumps(content))


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageMistake(
            f"{path} cannot be read ({os.strerror(error.errno or 0)}); write its path"
        ) from None
    except ValueError as error:
        raise UsageMistake(f"{path} is no JSON ({error}); write the path of a config.json") from None
    return _check(content)


def _check(content: Any) -> Mapping[str, Any]:
    if not isinstance(content, dict) or not isinstance(content.get("model_type"), str):
        raise UsageMistake("there is no model_type in it; write a Hugging Face config.json")
    return content
