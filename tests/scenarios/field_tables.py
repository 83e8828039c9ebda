"""The tables of ``docs/scenarios.md``, from the one description of the fields."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_membudget.user_input.fields import Field, Table


def field_tables(groups: Mapping[str, tuple[Field, ...]]) -> str:
    """Markdown: a table of each group of fields, and of each field that is a table itself."""
    parts = []
    for title, fields in groups.items():
        parts.append(f"### {title}\n\n{_rows(fields)}")
        parts += [
            f"#### `{one.name}`\n\n{_rows(one.kind.fields)}" for one in fields if isinstance(one.kind, Table)
        ]
    return "\n\n".join(parts)


def _rows(fields: tuple[Field, ...]) -> str:
    lines = ["| field | takes | without it | meaning |", "|---|---|---|---|"]
    for one in fields:
        default = "required" if one.required else one.default
        lines.append(f"| `{one.name}` | {one.kind.words} | {default} | {one.doc} |")
    return "\n".join(lines)
