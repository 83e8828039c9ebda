"""Reads the budgets of a scenario file, each combined with the file's defaults."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import UsageMistake
from ..user_input.fields import Table, unknown_field
from ..user_input.files import read_yaml
from ..user_input.nodes import Mistakes, Node, nearest
from .schema import BUDGET, GRID, NOT_IN_DEFAULTS, SCENARIO, SCRIPT

_KEYS = ("defaults", "budgets")
_EXAMPLE = "write a list, as in budgets: [{name: llama3-8b, gib: 70, model: {config: llama3-8b.json}}]"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of ``budgets:`` over its defaults, or one point of its grid."""

    name: str
    node: Node
    fields: Mapping[str, Node]
    mistakes: tuple[str, ...] = ()
    table: Table = SCENARIO
    """Describes its fields, without the grid: ``SCENARIO``, or ``SCRIPT`` where a program is run."""


@dataclass(frozen=True, slots=True)
class Written:
    """The fields of an entry without a grid, as they are read; collects mistakes."""

    entry: Entry
    values: Mapping[str, Any]
    mistakes: Mistakes
    folder: Path
    """Where its file lies; paths begin there."""

    def of(self, names: Iterable[str]) -> dict[str, Any]:
        """Which of the fields ``names`` are written."""
        return {name: self.values[name] for name in names if name in self.values}

    def refuse(self, name: str, what: str) -> None:
        """Report the field ``name``, or ``table.field``; at the budget, if it is not written."""
        table, _, inner = name.partition(".")
        node = self.entry.fields.get(table, self.entry.node)
        if inner and isinstance(node.value, dict):
            node = node.value.get(inner, node)
        self.mistakes.add(node, f"{name}: {what}")


def read_entries(path: Path, shown: str) -> list[Entry]:
    """The budgets of the file ``path``, which messages call ``shown``, in their order.

    Raises ``UsageMistake`` for a file without budgets; mistakes in one budget are kept with its entry.
    """
    root = read_yaml(path, shown) or Node({}, shown)
    written = {} if root.value is None else root.value
    if not isinstance(written, dict):
        raise UsageMistake(f"{root.place}: {root.text}: write a table with budgets: and defaults:")
    for key, node in written.items():
        if key not in _KEYS:
            raise UsageMistake(f"{node.place}: {_unknown(key)}")
    budgets = written.get("budgets")
    if budgets is None:
        raise UsageMistake(f"{shown}: there are no budgets in it; {_EXAMPLE}")
    if not isinstance(budgets.value, list) or not budgets.value:
        raise UsageMistake(f"{budgets.place}: budgets: {budgets.text}: {_EXAMPLE}")
    return _entries(budgets.value, _defaults(written.get("defaults")))


def _unknown(key: str) -> str:
    near = nearest(key, _KEYS)
    hint = f"did you mean {near}?" if near else "the keys are budgets, defaults"
    if near is None and (key in BUDGET.by_name or nearest(key, tuple(BUDGET.by_name))):
        hint = "it belongs into one of budgets:, or defaults:"
    return f"there is no key {key} here; {hint}"


def _defaults(node: Node | None) -> Mapping[str, Node]:
    if node is None or node.value is None:
        return {}
    if not isinstance(node.value, dict):
        raise UsageMistake(f"{node.place}: defaults: {node.text}: write a table of fields, as in a budget")
    mistakes = Mistakes()
    for name, child in node.value.items():
        if name in NOT_IN_DEFAULTS:
            mistakes.add(child, f"{name} cannot have a default: each budget has its own")
        elif name not in BUDGET.by_name and name not in SCRIPT.by_name:
            mistakes.refuse(child, name, unknown_field(BUDGET, name))
    mistakes.raise_all()
    return {name: child for name, child in node.value.items() if child.value is not None}


def _entries(nodes: list[Node], defaults: Mapping[str, Node]) -> list[Entry]:
    entries, places = [], dict[str, str]()
    for number, node in enumerate(nodes, start=1):
        entry = _entry(number, node, defaults)
        if entry.name in places:
            taken = f"{entry.node.place}: name: {entry.name} is taken at {places[entry.name]}; write another"
            entry = replace(entry, name=f"{entry.name}#{number}", mistakes=(*entry.mistakes, taken))
        places[entry.name] = entry.node.place
        entries.append(entry)
    return entries


def _entry(number: int, node: Node, defaults: Mapping[str, Node]) -> Entry:
    unnamed = f"budget#{number}"
    if not isinstance(node.value, dict):
        mistake = f"{node.place}: {node.text}: write a table with name, model or script, and gib or gpu"
        return Entry(unnamed, node, {}, (mistake,))
    table, other = (SCRIPT, SCENARIO) if _is_script(node.value) else (SCENARIO, SCRIPT)
    # a file may have scripts and scenarios: what only the other kind has is no default for this one
    others = other.by_name.keys() - table.by_name.keys()
    below = {name: child for name, child in defaults.items() if name not in others}
    entry = Entry(unnamed, node, merged(table, below, node.value), table=table)
    name = entry.fields.get("name")
    if name is None or not isinstance(name.value, str) or not name.value.strip():
        return entry
    for forbidden in ("::", "[", "]", "\n"):
        if forbidden in name.value:
            mistake = f"{name.place}: name: {name.text}: write it without {forbidden!r}"
            return replace(entry, mistakes=(mistake,))
    return replace(entry, name=name.value)


def _is_script(fields: Mapping[str, Node]) -> bool:
    grid = fields[GRID.name].value if GRID.name in fields else None
    varied = [path.strip() for key in grid for path in key.split(",")] if isinstance(grid, dict) else []
    return "script" in (*fields, *varied)


def merged(table: Table, below: Mapping[str, Node], above: Mapping[str, Node]) -> dict[str, Node]:
    """The fields of ``below`` overridden by those of ``above``: tables by key; null removes a field."""
    result = dict(below)
    for name, node in above.items():
        if node.value is None:
            result.pop(name, None)
        elif name in result and name in table.by_name:
            result[name] = over(table.by_name[name].kind, result[name], node)
        else:
            result[name] = node
    return result


def over(kind: object, below: Node, above: Node) -> Node:
    """``below`` overridden by ``above``: by key if both are tables, else ``above`` alone."""
    if not isinstance(kind, Table) or kind.is_whole or not isinstance(above.value, dict):
        return above
    under = kind.opened(below)
    if not under:
        return above
    return Node(merged(kind, under, above.value), above.file, above.line)
