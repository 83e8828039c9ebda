"""Properties that a test records with ``record_property``, as plain values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

Property = tuple[str, Any]


def plain_properties(properties: Iterable[Property]) -> list[Property]:
    """``properties`` with values that JSON has; others as text, as JUnit files have them all."""
    return [(str(name), value if _is_plain(value) else str(value)) for name, value in properties]


def _is_plain(value: object) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    return value is None or type(value) in (bool, int, str)
