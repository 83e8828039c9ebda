"""JsonObject: a frozen dataclass that is an object in JSON; untrusted values are checked by its hints."""

import dataclasses
import functools
import re
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from .errors import UsageMistake
from .user_input.kinds import FLAG, Value, number, whole

T = TypeVar("T", bound="JsonObject")

#: The value of a key that is not there.
_MISSING: Final = object()
#: Returns a value that fits. Raises ``Misfit``.
Check = Callable[[Any], Any]
#: The largest size in bytes: what PyTorch's ``int64_t`` holds.
_MOST_BYTES: Final = 2**63 - 1
#: Characters of a value that an error message shows.
_SHOWN: Final = 60
#: Of Unicode's categories: control, format (direction overrides, zero widths), surrogate, private, none (XML
#: has no way to write some of them), line and paragraph separators.
_HIDDEN: Final = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
#: A ``Word``; the anchors are for JSON Schema, which searches.
_WORDS: Final = "^[a-z][a-z0-9_-]{0,39}$"
#: Most elements of a list, where its annotation names no other number, and most keys of a mapping.
_MOST: Final = 100_000
_MOST_KEYS: Final = 10_000


class Misfit(UsageMistake):
    """A value is not what its key needs; the message begins with the key path."""

    def __init__(self, wanted: str, value: object, path: str = "") -> None:
        """``path``: the steps to the value, as ``.tests[0].line``."""
        super().__init__(f"{path.removeprefix('.') or 'the document'}: {wanted}, and is {_shown(value)}")
        self._wanted, self._value, self._path = wanted, value, path

    def inside(self, step: str) -> "Misfit":
        """The same, where ``step`` leads to the value that was read."""
        return Misfit(self._wanted, self._value, f"{step}{self._path}")


def text(longest: int = 10_000, *, has_lines: bool = False) -> Check:
    """A text; its control characters are escaped."""

    def check(value: object) -> str:
        if not isinstance(value, str):
            raise Misfit("must be a text", value)
        if len(value) > longest:
            raise Misfit(f"must be a text of at most {longest:,} characters", value)
        return visible(value, lines=has_lines)

    return check


def of(kind: Value) -> Check:
    """A value of a kind of ``user_input``."""

    def check(value: object) -> object:
        if not kind.takes(value):
            raise Misfit(f"must be {kind.wanted}", value)
        return value

    return check


def _is_word(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(_WORDS, value) is not None


_WORD: Final = Value(
    "word",
    _is_word,
    {"type": "string", "pattern": _WORDS},
    "a word of small letters, as in optimizer_states",
)
read_word: Final = of(_WORD)
Word = Annotated[str, _WORD]
Lines = Annotated[str, text(200_000, has_lines=True)]
Difference = Annotated[int, whole(-_MOST_BYTES, most=_MOST_BYTES)]
Count = Annotated[int, whole(1, most=10**9)]
"""At least one."""
LineNumber = Annotated[int, whole(0, most=10**9)]

#: What fields without an annotation take.
PLAIN: Final[Mapping[type, Value | Check]] = {
    int: whole(0, most=_MOST_BYTES),
    float: number(1, is_included=True, below=1e15),
    bool: FLAG,
    str: text(),
}


def _scalar(value: object) -> object:
    """A value of any type but lists and objects; a text with control characters escaped."""
    if isinstance(value, (list, dict)):
        raise Misfit("must be no list and no object", value)
    return visible(value) if isinstance(value, str) else value


def _step_to(key: str) -> str:
    """The step to a key; one that is no identifier is quoted."""
    shown = _shortened(visible(key))
    return f".{shown}" if re.fullmatch(r"\w+", shown) else f'["{shown}"]'


def visible(text: str, *, lines: bool = False) -> str:
    """``text`` with control characters written as ``\\x1b``; with ``lines``, newlines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    hidden = {char for char in text if char not in kept and unicodedata.category(char) in _HIDDEN}
    return text.translate({ord(char): char.encode("unicode_escape").decode() for char in hidden})


def _shown(value: object) -> str:
    if value is _MISSING:
        return "missing"
    if isinstance(value, dict):
        return f"an object of {len(value):,} keys"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value):,}"
    if isinstance(value, str):
        return f'"{_shortened(visible(value))}"'
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**30:
        return "a larger number"
    words = {None: "null", True: "true", False: "false"}
    return words[value] if value is None or isinstance(value, bool) else _shortened(repr(value))


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


class JsonObject:
    """A frozen dataclass that has one JSON form: an object with a key for each field.

    Fields are numbers, texts, ``X | None``, tuples, mappings, and classes with these methods. ``Annotated``
    says what untrusted values have to be: by a kind or a check, by the most elements of a tuple, or in words
    by what a tuple of fixed length is.
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
                raise Misfit("must be there", _MISSING, f".{name}")
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
        return _list_reader(_reader(args[0], checked), (note or _MOST) if checked else sys.maxsize)
    if origin is tuple:
        return _row_reader([_reader(arg, checked) for arg in args], note or f"a list of {len(args)}")
    if origin is Mapping:
        most = _MOST_KEYS if checked else sys.maxsize
        return _mapping_reader(_reader(args[0], checked), _reader(args[1], checked), most)
    if hasattr(hint, "from_json"):
        return functools.partial(hint.from_json, checked=checked)
    if not checked:
        return lambda data: data
    kind = note or PLAIN.get(hint, _scalar)
    return of(kind) if isinstance(kind, Value) else cast(Check, kind)


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


def _mapping_reader(read_key: Check, inner: Check, most: int) -> Check:
    def read(data: Any) -> dict[str, Any]:
        if not isinstance(data, dict) or len(data) > most:
            raise Misfit(f"must be an object of at most {most:,} keys", data)
        return {
            _inside(" (a key)", read_key, key): _inside(_step_to(key), inner, part)
            for key, part in data.items()
        }

    return read


def _inside(step: str | int, read: Check, data: Any) -> Any:
    """What ``read`` makes of ``data``; ``step`` leads there."""
    try:
        return read(data)
    except Misfit as error:
        raise error.inside(f"[{step}]" if isinstance(step, int) else step) from None
