"""Replaces functions of torch while a run is recorded."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class Replacement:
    """Replaces ``owner.name`` by ``wrap`` of the original, until ``remove``.

    Several may replace one function and be removed in any order; later replacements by others stay.
    """

    def __init__(self, owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
        self._owner = owner
        self._name = name
        self._original = getattr(owner, name)
        function: Any = functools.wraps(self._original)(wrap(self._original))
        function.replacement = self
        self._function = function
        self._is_removed = False
        setattr(owner, name, self._function)

    def remove(self) -> None:
        """Restore the original, as soon as no other replacement wraps it."""
        self._is_removed = True
        current = getattr(self._owner, self._name)
        # by identity too: somebody else's wrapper may copy our attributes
        while (top := getattr(current, "replacement", None)) and top._is_removed and top._function is current:
            current = top._original
            setattr(self._owner, self._name, current)
