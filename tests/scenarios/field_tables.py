"""The tables of ``docs/scenarios.md``, from the one description of the fields."""

from collections.abc import Iterator, Mapping

from pytest_membudget.user_input.fields import Field, Table

#: What a field takes, in the words of messages, and in fewer.
_SHORTER = {
    "whole number of at least 1": "number",
    "a single value is its": "or its",
    "`true` or `false`": "boolean",
}


def field_tables(groups: Mapping[str, tuple[Field, ...]]) -> str:
    """Markdown: a table of each group of fields; a field of a field that is a table has a dot."""
    return "\n\n".join(f"### {title}\n\n{_rows(fields)}" for title, fields in groups.items())


def _rows(fields: tuple[Field, ...]) -> str:
    lines = ["| field | takes | without it | meaning |", "|---|---|---|---|"]
    written = set()  # a teacher has a model's fields
    for name, one in _flat(fields):
        default = "required" if one.required else one.default
        takes = one.kind.words
        for words, fewer in _SHORTER.items():
            takes = takes.replace(words, fewer)
        row = f"| {takes} | {default} | {one.doc} |"
        if row not in written:
            lines.append(f"| `{name}` {row}")
        written.add(row)
    return "\n".join(lines)


def _flat(fields: tuple[Field, ...], prefix: str = "") -> Iterator[tuple[str, Field]]:
    for one in fields:
        yield prefix + one.name, one
        if isinstance(one.kind, Table):
            yield from _flat(one.kind.fields, f"{prefix}{one.name}.")
