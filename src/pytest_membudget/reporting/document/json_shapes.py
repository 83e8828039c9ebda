"""Shapes: checks for the values of an untrusted JSON file; errors name the key path.

Single values are checked by ``user_input.kinds``. Tables and lists are not read as ``user_input.nodes``,
which take three times as long and 210 MiB for a report of 21 MiB; keys of later versions are not mistakes,
and errors name key paths instead of lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...errors import UsageMistake
from ...user_input.kinds import Value
from ..files.escaping import visible

#: The largest size in bytes: what PyTorch's ``int64_t`` holds.
MOST_BYTES = 2**63 - 1
#: Characters of a value that an error message shows.
_SHOWN = 60


class Misfit(UsageMistake):
    """A value does not have the shape of its key; the message begins with the key path."""

    def __init__(self, path: str, wanted: str, value: object) -> None:
        super().__init__(f"{path or 'the document'}: {wanted}, and is {_shown(value)}")


class JsonShape(Protocol):
    """Checks a value at a key path and returns it, cleaned. Raises ``Misfit``."""

    def __call__(self, value: object, path: str) -> Any: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Text:
    """A text; its control characters are escaped."""

    longest: int = 2000
    pattern: str = ""
    wanted: str = "must be a text"
    lines: bool = False
    """Whether it may have several lines."""

    def __call__(self, value: object, path: str) -> str:
        """The text with control characters escaped."""
        if not isinstance(value, str):
            raise Misfit(path, self.wanted, value)
        if len(value) > self.longest:
            raise Misfit(path, f"must be a text of at most {self.longest:,} characters", value)
        if self.pattern and not re.fullmatch(self.pattern, value):
            raise Misfit(path, self.wanted, value)
        return visible(value, lines=self.lines)


@dataclass(frozen=True, slots=True)
class Of:
    """A value of a kind of ``user_input``."""

    kind: Value

    def __call__(self, value: object, path: str) -> Any:
        """The value."""
        if not self.kind.takes(value):
            raise Misfit(path, f"must be {self.kind.wanted}", value)
        return value


@dataclass(frozen=True, slots=True)
class Maybe:
    """Null, or a value of shape ``inner``."""

    inner: JsonShape

    def __call__(self, value: object, path: str) -> Any:
        """None or the value."""
        return None if value is None else self.inner(value, path)


@dataclass(frozen=True, slots=True)
class JsonList:
    """A list of one shape."""

    inner: JsonShape
    most: int = 10_000

    def __call__(self, value: object, path: str) -> list[Any]:
        """The list."""
        if not isinstance(value, list) or len(value) > self.most:
            raise Misfit(path, f"must be a list of at most {self.most:,}", value)
        return [self.inner(part, f"{path}[{number}]") for number, part in enumerate(value)]


@dataclass(frozen=True, slots=True)
class MapOf:
    """An object whose keys all fit ``key`` and whose values have one shape."""

    key: Text
    inner: JsonShape
    most: int = 100

    def __call__(self, value: object, path: str) -> dict[str, Any]:
        """The object."""
        if not isinstance(value, dict) or len(value) > self.most:
            raise Misfit(path, f"must be an object of at most {self.most:,} keys", value)
        return {
            self.key(key, f"{path} (a key)"): self.inner(part, key_path(path, key))
            for key, part in value.items()
        }


@dataclass(frozen=True, slots=True)
class Keys:
    """An object with named keys. Other keys are dropped: later versions may have more."""

    required: Mapping[str, JsonShape]
    optional: Mapping[str, tuple[JsonShape, Callable[[], Any]]] = field(default_factory=dict)
    """Keys that may be missing, with the value they get then."""

    def __call__(self, value: object, path: str) -> dict[str, Any]:
        """The object with every named key."""
        if not isinstance(value, dict):
            raise Misfit(path, "must be an object", value)
        found = {}
        for name, shape in self.required.items():
            if name not in value:
                raise Misfit(key_path(path, name), "must be there", _Missing())
            found[name] = shape(value[name], key_path(path, name))
        for name, (shape, absent) in self.optional.items():
            found[name] = shape(value[name], key_path(path, name)) if name in value else absent()
        return found


def key_path(path: str, key: str) -> str:
    """The path of ``key`` in the object at ``path``; keys that are no identifiers are quoted."""
    shown = _shortened(visible(key))
    step = shown if re.fullmatch(r"\w+", shown) else f'["{shown}"]'
    return f"{path}.{step}" if path and not step.startswith("[") else f"{path}{step}"


class _Missing:
    """The value of a key that is not there."""

    def __repr__(self) -> str:
        return "missing"


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return f"an object of {len(value):,} keys"
    if isinstance(value, list):
        return f"a list of {len(value):,}"
    if isinstance(value, str):
        return f'"{_shortened(visible(value))}"'
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**30:
        return "a larger number"
    words = {None: "null", True: "true", False: "false"}
    return words[value] if value is None or isinstance(value, bool) else _shortened(repr(value))


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
