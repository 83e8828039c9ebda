"""Values of a mapping that somebody wrote: each read by its name, checked, and named when it is wrong."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from ...errors import UsageMistake


class Fields:
    """The values that ``given`` has, then ``defaults``; errors begin with ``where`` they were written."""

    def __init__(self, given: Mapping[str, object], defaults: Mapping[str, object], where: str) -> None:
        self.where = where
        self._given = given
        self._defaults = defaults

    def __contains__(self, key: str) -> bool:
        """Whether ``key`` was given, and not as null."""
        return self._given.get(key) is not None

    def raw(self, key: str) -> object:
        """The value as written, or the default; an error where there is neither."""
        if key in self._given:
            return self._given[key]
        if key in self._defaults:
            return self._defaults[key]
        raise self.mistake(f"{key} is missing")

    def optional(self, key: str) -> object:
        """The value as written, the default, or None where there is neither."""
        return self._given.get(key, self._defaults.get(key))

    def mistake(self, text: str) -> UsageMistake:
        """The error that says ``text`` of these values."""
        return UsageMistake(f"{self.where}: {text}")

    def wrong(self, key: str, wanted: str) -> UsageMistake:
        """The error for a value that cannot be used."""
        return self.mistake(f"{key}={self.raw(key)!r} cannot be used; write {wanted}")

    def size(self, key: str, *, least: int = 1) -> int:
        """A whole number, ``least`` or more."""
        value = self.optional_size(key, least=least)
        if value is None:
            raise self.wrong(key, f"a whole number, {least} or more")
        return value

    def optional_size(self, key: str, *, least: int = 1) -> int | None:
        """As ``size``, or None where it is null."""
        value = self.raw(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.wrong(key, f"a whole number, {least} or more")
        return value

    def flag(self, key: str) -> bool:
        """True or false; null is false, as in Python's ``if``."""
        value = self.raw(key)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def probability(self, key: str) -> float:
        """A number from 0 to 1; null is 0."""
        value = self.raw(key)
        if value is None:
            return 0.0
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise self.wrong(key, "a number from 0 to 1")
        return float(value)

    def text(self, key: str) -> str:
        """A name."""
        value = self.raw(key)
        if not isinstance(value, str) or not value:
            raise self.wrong(key, "a name")
        return value

    def mapping(self, key: str) -> Mapping[str, object]:
        """Values below ``key``; null or nothing: none."""
        value = self.optional(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self.wrong(key, "a mapping of names to values")
        return value

    def sizes(self, key: str) -> list[int] | None:
        """A list of whole numbers from 0 on, or None where it is null."""
        value = self.raw(key)
        if value is None:
            return None
        if not isinstance(value, list | tuple) or any(type(each) is not int or each < 0 for each in value):
            raise self.wrong(key, "a list of whole numbers, 0 or more")
        return list(value)

    def names(self, key: str, count: int) -> list[str] | None:
        """A list of ``count`` names, or None where it is null."""
        value = self.raw(key)
        if value is None:
            return None
        if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
            raise self.wrong(key, "a list of names")
        if len(value) != count:
            raise self.mistake(f"{key} has {len(value)} entries; write {count}, one a layer")
        return list(value)


def nearest(name: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` for the known name most like ``name``; nothing where none is."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" Did you mean {found[0]!r}?" if found else ""
