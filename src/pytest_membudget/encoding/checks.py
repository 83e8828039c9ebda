"""What values of untrusted JSON have to be, as annotations of fields; errors name the key path."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Annotated, Any, Final

from ..errors import UsageMistake
from ..user_input.kinds import FLAG, Value, choice, number, whole

#: The value of a key that is not there.
MISSING: Final = object()
#: Returns a value that fits. Raises ``Misfit``.
Check = Callable[[Any], Any]
#: The largest size in bytes: what PyTorch's ``int64_t`` holds.
_MOST_BYTES: Final = 2**63 - 1
#: Characters of a value that an error message shows.
_SHOWN: Final = 60
#: Of Unicode's categories: control, format (direction overrides, zero widths), surrogate, private, none (XML
#: has no way to write some of them), line and paragraph separators.
_HIDDEN: Final = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


class Misfit(UsageMistake):
    """A value is not what its key needs; the message begins with the key path."""

    def __init__(self, wanted: str, value: object, path: str = "") -> None:
        """``path``: the steps to the value, as ``.tests[0].line``."""
        super().__init__(f"{path.removeprefix('.') or 'the document'}: {wanted}, and is {_shown(value)}")
        self._wanted, self._value, self._path = wanted, value, path

    def inside(self, step: str) -> Misfit:
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


def one_of(values: tuple[str, ...]) -> Check:
    """One of a few words."""
    return of(choice(values))


def _is_word(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[a-z][a-z0-9_-]{0,39}", value) is not None


read_word: Final = of(Value("word", _is_word, {}, "a word of small letters, as in optimizer_states"))
Word = Annotated[str, read_word]
Lines = Annotated[str, text(200_000, has_lines=True)]
Difference = Annotated[int, of(whole(-_MOST_BYTES, most=_MOST_BYTES))]
Count = Annotated[int, of(whole(1, most=10**9))]
"""At least one."""
LineNumber = Annotated[int, of(whole(0, most=10**9))]

#: The checks of fields without an annotation.
PLAIN: Final = {
    int: of(whole(0, most=_MOST_BYTES)),
    float: of(number(1, is_included=True, below=1e15)),
    bool: of(FLAG),
    str: text(),
}


def scalar(value: object) -> object:
    """A value of any type but lists and objects; a text with control characters escaped."""
    if isinstance(value, (list, dict)):
        raise Misfit("must be no list and no object", value)
    return visible(value) if isinstance(value, str) else value


def step_to(key: str) -> str:
    """The step to a key; one that is no identifier is quoted."""
    shown = _shortened(visible(key))
    return f".{shown}" if re.fullmatch(r"\w+", shown) else f'["{shown}"]'


def visible(text: str, *, lines: bool = False) -> str:
    """``text`` with control characters written as ``\\x1b``; with ``lines``, newlines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(
        _written(char) if char not in kept and unicodedata.category(char) in _HIDDEN else char
        for char in text
    )


def _written(char: str) -> str:
    code = ord(char)
    if char == "\n":
        return "\\n"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _shown(value: object) -> str:
    if value is MISSING:
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
