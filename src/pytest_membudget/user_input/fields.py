"""Field and Table: descriptions of what users may write, and checks of tables against them."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from .kinds import FLAG, choice, list_of, whole
from .nodes import UNREADABLE, Kind, Mistakes, Node, no_such

#: The key of a dataclass field's metadata that has its ``Field``, and an example of a number.
_FIELD: Final = "user_input"


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its name, the values it takes, and its meaning."""

    name: str
    kind: Kind
    doc: str
    """A sentence or two; the docs and editors show it."""
    default: str = ""
    """The default in words; empty for none."""
    required: bool = False


def described(
    doc: str,
    default: Any = dataclasses.MISSING,
    shown: str | None = None,
    *,
    kind: Kind | None = None,
    example: int = 0,
) -> Any:
    """A field of a dataclass that users write, of which its type says what it takes, if ``kind`` does not.

    ``shown``: the default in words, where it is not the default's own text; without either the field has to
    be written.
    """
    required = default is dataclasses.MISSING and shown is None
    if shown is None:
        text = str(default).lower() if isinstance(default, bool) else str(default)
        shown = "" if required or default is None or default == {} else text
    metadata = {_FIELD: (doc, shown, required, kind, example)}
    if default == {}:  # dataclasses take no mutable default
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


def fields_of(described_class: type, example: int = 1) -> tuple[Field, ...]:
    """The ``described`` fields of a dataclass; ``example``: of their numbers."""
    hints, found = get_type_hints(described_class), []
    for one in dataclasses.fields(described_class):
        if _FIELD in one.metadata:
            doc, shown, required, kind, own = one.metadata[_FIELD]
            kind = kind or _kind_of(hints[one.name], own or example)
            found.append(Field(one.name, kind, doc, shown, required))
    return tuple(found)


def _kind_of(hint: Any, example: int) -> Kind:
    """What a field of that type takes, without None."""
    if type(None) in get_args(hint):
        [hint] = [part for part in get_args(hint) if part is not type(None)]
    if get_origin(hint) is Literal:
        return choice(get_args(hint))
    if get_origin(hint) is tuple:
        return list_of(choice(get_args(get_args(hint)[0])))
    assert hint in (bool, int), f"{hint}: write its kind"
    return FLAG if hint is bool else whole(example=example)


@dataclass(frozen=True, slots=True)
class Table:
    """A table with described fields. A value that is no table is its field ``main``."""

    fields: tuple[Field, ...]
    main: str | None = None
    one_of: tuple[str, ...] = ()
    """Exactly one of these has to be written."""
    is_whole: bool = False
    """Whether a written table replaces the default's table; otherwise their keys are merged."""
    what: str = "field"
    """What messages call one of its fields."""
    by_name: Mapping[str, Field] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {one.name: one for one in self.fields})

    @property
    def words(self) -> str:
        """See ``Kind``."""
        return f"table; a single value is its `{self.main}`" if self.main else "table"

    def opened(self, node: Node) -> Mapping[str, Node] | None:
        """The fields of ``node`` as written, without nulls; None if it is no table."""
        if isinstance(node.value, dict):
            return {key: child for key, child in node.value.items() if child.value is not None}
        if self.main is not None and node.value is not None:
            return {self.main: node}
        return None

    def read(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """See ``Kind``: a dict with the fields that are written."""
        written = self.opened(node)
        if written is None or isinstance(node.value, list):
            return mistakes.refuse(node, name, f"write a table of {', '.join(self.by_name)}")
        if self.main is not None and not isinstance(node.value, dict):  # messages call it ``name`` alone
            value = self.by_name[self.main].kind.read(node, name, mistakes)
            return UNREADABLE if value is UNREADABLE else {self.main: value}
        values = read_fields(self, written, node, f"{name}.", mistakes)
        return UNREADABLE if values is None else values


def read_fields(
    table: Table, written: Mapping[str, Node], place: Node, prefix: str, mistakes: Mistakes
) -> dict[str, Any] | None:
    """The plain values of ``written``, fields of ``table``; None if one of them cannot be read.

    ``place`` is the place of a missing field, ``prefix`` what messages write before a name.
    """
    before = len(mistakes)
    values = {}
    for name, node in written.items():
        known = table.by_name.get(name)
        if known is None:
            mistakes.refuse(node, f"{prefix}{name}", unknown_field(table, name, prefix))
        elif node.value is not None:
            values[name] = known.kind.read(node, f"{prefix}{name}", mistakes)
    names = [one.name for one in table.fields if one.required and written.get(one.name) is None]
    for name in names:
        mistakes.add(place, f"{place.syntax.before}{prefix}{name} is missing: {table.by_name[name].doc}")
    if table.one_of and sum(name in written for name in table.one_of) != 1:
        choices = ", ".join(f"{prefix}{name}" for name in table.one_of)
        found = ", ".join(name for name in table.one_of if name in written) or "none of them is there"
        mistakes.add(place, f"write exactly one of {choices}: {found}")
    return values if len(mistakes) == before and UNREADABLE not in values.values() else None


def unknown_field(table: Table, name: str, prefix: str = "") -> str:
    """The message for a key that is no field of ``table``."""
    return no_such(name, tuple(table.by_name), prefix.rstrip("."), table.what)
