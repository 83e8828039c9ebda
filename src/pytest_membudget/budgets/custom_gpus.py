"""Custom GPUs: reads and checks ``[tool.membudget] gpus``."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ..hardware.gpus import Gpu, load_gpus, normalised_name
from ..user_input.fields import Table, fields_of
from ..user_input.nodes import Mistakes, Node
from .settings import settings_table

CARD: Final = Table(fields_of(Gpu))


def custom_gpus(pyproject: Path) -> str:
    """The custom GPUs for ``hardware.gpus.CUSTOM_GPUS``; empty if there are none.

    Raises ``UsageMistake`` with every mistake, its file and line.
    """
    mistakes = Mistakes()
    entries: dict[str, Mapping[str, Any]] = {}
    places: Mapping[str, Node] = {}
    table = settings_table(pyproject).value.get("gpus")
    if table is not None and not (isinstance(table.value, dict) and table.value):
        mistakes.refuse(table, "gpus", "write a table of cards by their names")
    elif table is not None:
        places = table.value
        read = {name: CARD.read(node, f"gpus.{name}", mistakes) for name, node in places.items()}
        entries = {name: values for name, values in read.items() if isinstance(values, dict)}
    if entries:
        _names_are_free(entries, places, mistakes)
    mistakes.raise_all()
    return json.dumps(entries) if entries else ""


def _names_are_free(
    entries: Mapping[str, Mapping[str, Any]], places: Mapping[str, Node], mistakes: Mistakes
) -> None:
    """Report names that would mean two cards; a custom card may replace the catalogue's of its name."""
    own = {normalised_name(name) for name in entries}
    taken = {
        normalised_name(known): gpu.name
        for gpu in load_gpus().values()
        if normalised_name(gpu.name) not in own
        for known in (gpu.name, *gpu.aliases)
    }
    for name, entry in entries.items():
        for known in (name, *entry.get("aliases", ())):
            other = taken.setdefault(normalised_name(known), name)
            if other != name:
                mistakes.add(places[name], f"{name}: {known} means {other} already; write another name")
