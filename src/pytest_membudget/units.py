"""Sizes: bytes inside, GiB in text."""

import re

KIB = 2**10
MIB = 2**20
GIB = 2**30

_UNITS = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(B|KiB|MiB|GiB)\s*")


def round_up(size: int, step: int) -> int:
    """``size``, rounded up to a multiple of ``step``."""
    return -(-size // step) * step


def bytes_of_gib(gib: float) -> int:
    """The whole bytes in ``gib`` GiB; a fraction of a byte is dropped."""
    return int(gib * GIB)


def gib_text(size_bytes: int) -> str:
    """``size_bytes`` as text in GiB, in smaller units if GiB would show no digits.

    >>> gib_text(13314398618)
    '12.40 GiB'
    >>> gib_text(1536)
    '1.5 KiB'
    """
    size = abs(size_bytes)
    sign = "-" if size_bytes < 0 else ""
    if size >= GIB // 10:
        return f"{sign}{size / GIB:.2f} GiB"
    if size >= MIB // 10:
        return f"{sign}{size / MIB:.1f} MiB"
    if size >= KIB:
        return f"{sign}{size / KIB:.1f} KiB"
    return f"{sign}{size} B"


def gb_text(size_bytes: int) -> str:
    """``size_bytes`` in GB, as installers and disks are measured.

    >>> gb_text(1_650_000_000)
    '1.7 GB'
    """
    return f"{size_bytes / 10**9:.1f} GB"


def times_text(count: int) -> str:
    """``count`` as text.

    >>> times_text(1), times_text(3)
    ('once', '3 times')
    """
    return "once" if count == 1 else f"{count} times"


def parse_bytes(text: str) -> int:
    """The bytes that ``text`` names, as in ``"256 MiB"``; ``ValueError`` if it names none."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a size such as '256 MiB' (units: {', '.join(_UNITS)})")
    return int(float(match[1]) * _UNITS[match[2]])


def signed_size(size_bytes: int) -> str:
    """``size_bytes`` with its unit; growth begins with ``+``."""
    return f"{'+' if size_bytes > 0 else ''}{gib_text(size_bytes)}"
