"""Functions of torch that are replaced while a run is followed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class Replacement:
    """``owner.name`` is what ``wrap`` makes of the function that was there, until ``remove``.

    Several may replace one function, and be removed in any order; what others have put there since stays.
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
        """Put the original back, as soon as no other replacement is above."""
        self._is_removed = True
        current = getattr(self._owner, self._name)
        # the identity is compared too: a wrapper of somebody else's has our attributes
        while (top := getattr(current, "replacement", None)) and top._is_removed and top._function is current:
            current = top._original
            setattr(self._owner, self._name, current)
