"""Allowed growth: a share, a size, or both."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from ..units import parse_bytes

_PERCENT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*")


@dataclass(frozen=True, slots=True)
class Growth:
    """Growth that is allowed over a base figure: a share of it plus a size."""

    percent: float = 0.0
    size_bytes: int = 0

    def allowed_bytes(self, base_bytes: int) -> int:
        """The bytes that may be added to ``base_bytes``."""
        return math.floor(base_bytes * self.percent / 100) + self.size_bytes


def parse_growth(text: object) -> Growth:
    """``"2%"``, ``"256 MiB"`` or ``"2% + 64 MiB"``; ``ValueError`` says what to write instead."""
    if not isinstance(text, str):
        raise ValueError("write a text such as '2%', '256 MiB' or '2% + 64 MiB'")
    percent, size_bytes, seen = 0.0, 0, set()
    for part in text.split("+"):
        match = _PERCENT.fullmatch(part)
        kind = "percent" if match else "size"
        if kind in seen:
            raise ValueError(f"{text!r} names two of a kind; write '2%', '256 MiB' or '2% + 64 MiB'")
        seen.add(kind)
        if match:
            percent = float(match[1])
        else:
            try:
                size_bytes = parse_bytes(part)
            except ValueError:
                raise ValueError(f"{text!r} is no growth; write '2%', '256 MiB' or '2% + 64 MiB'") from None
    return Growth(percent, size_bytes)
