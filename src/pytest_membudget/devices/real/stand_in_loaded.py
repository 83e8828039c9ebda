"""Whether what torch takes for CUDA in this process is the stand-in, of which nothing is measured."""

from __future__ import annotations

import ctypes


def is_stand_in_loaded() -> bool:
    """Whether the stand-in's libraries answer here."""
    return hasattr(ctypes.CDLL(None), "stand_in_set_cards")
