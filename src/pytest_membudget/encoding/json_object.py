"""JsonObject: a frozen dataclass that is an object in JSON, read by its type hints."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import fields
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from .checks import MISSING, PLAIN, Check, Misfit, scalar, step_to

T = TypeVar("T", bound="JsonObject")

#: Most elements of a list, where its annotation names no other number, and most keys of a mapping.
_MOST = 100_000
_MOST_KEYS = 10_000


class JsonObject:
    """A frozen dataclass that has one JSON form: an object with a key for each field.

    Fields are numbers, texts, ``X | None``, tuples, mappings, and classes with these methods. ``Annotated``
    says what untrusted values have to be: by a check, by the most elements of a tuple, or in words by what a
    tuple of fixed length is.
    """

    __slots__ = ()

    derived: ClassVar[tuple[str, ...]] = ()
    """Properties that are written as well."""
    required: ClassVar[tuple[str, ...]] = ()
    """Keys that have to be there although their fields have a default."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types only."""
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return {name: _plain(getattr(self, name)) for name in (*names, *self.derived)}

    @classmethod
    def from_json(cls: type[T], data: Any, *, checked: bool = False) -> T:
        """The inverse of ``to_json``; keys that are missing have their defaults, unknown ones are left out.

        ``checked``: for untrusted ``data``: values are within bounds, and texts safe to print. Raises
        ``Misfit``.
        """
        if not isinstance(data, dict):
            raise Misfit("must be an object", data)
        found = {}
        for name, (read, is_required) in _keys(cls, checked).items():  # type: ignore[arg-type]
            if name in data:
                found[name] = _inside(f".{name}", read, data[name])
            elif is_required:
                raise Misfit("must be there", MISSING, f".{name}")
        return cls(**found)


def _plain(value: Any) -> Any:
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, (tuple, list)) else value


@functools.cache
def _keys(cls: Any, checked: bool) -> dict[str, tuple[Check, bool]]:
    """For each key how its value is read, and whether it has to be there."""
    hints = get_type_hints(cls, include_extras=True)
    return {
        field.name: (
            _reader(hints[field.name], checked),
            field.name in cls.required or field.default is field.default_factory is dataclasses.MISSING,
        )
        for field in fields(cls)
    }


def _reader(hint: Any, checked: bool, note: Any = None) -> Check:
    """How values of ``hint`` are read; ``note``: its annotation."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _reader(args[0], checked, args[1])
    if origin in (Union, UnionType):
        inner = _reader(next(arg for arg in args if arg is not NoneType), checked)
        return lambda data: None if data is None else inner(data)
    if origin is tuple and args[-1] is Ellipsis:
        return _list_reader(_reader(args[0], checked), note or _MOST)
    if origin is tuple:
        return _row_reader([_reader(arg, checked) for arg in args], note or f"a list of {len(args)}")
    if origin is Mapping:
        return _mapping_reader(_reader(args[0], checked), _reader(args[1], checked))
    if hasattr(hint, "from_json"):
        return functools.partial(hint.from_json, checked=checked)
    if not checked:
        return _as_it_is
    return cast(Check, note or PLAIN.get(hint, scalar))


def _list_reader(inner: Check, most: int) -> Check:
    def read(data: Any) -> tuple[Any, ...]:
        if not isinstance(data, (list, tuple)) or len(data) > most:
            raise Misfit(f"must be a list of at most {most:,}", data)
        return tuple(_inside(number, inner, part) for number, part in enumerate(data))

    return read


def _row_reader(inners: Sequence[Check], wanted: str) -> Check:
    def read(data: Any) -> tuple[Any, ...]:
        if not isinstance(data, (list, tuple)) or len(data) != len(inners):
            raise Misfit(f"must be {wanted}", data)
        return tuple(_inside(number, inner, data[number]) for number, inner in enumerate(inners))

    return read


def _mapping_reader(read_key: Check, inner: Check) -> Check:
    def read(data: Any) -> dict[str, Any]:
        if not isinstance(data, dict) or len(data) > _MOST_KEYS:
            raise Misfit(f"must be an object of at most {_MOST_KEYS:,} keys", data)
        return {
            _inside(" (a key)", read_key, key): _inside(step_to(key), inner, part)
            for key, part in data.items()
        }

    return read


def _inside(step: str | int, read: Check, data: Any) -> Any:
    """What ``read`` makes of ``data``; ``step`` leads there."""
    try:
        return read(data)
    except Misfit as error:
        raise error.inside(f"[{step}]" if isinstance(step, int) else step) from None


def _as_it_is(data: Any) -> Any:
    return data
