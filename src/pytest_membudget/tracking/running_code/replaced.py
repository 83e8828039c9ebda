"""Hooks on torch, and replacements of its functions, while a run is recorded."""

import contextlib
import functools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
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


class CallDepth(threading.local):
    """How deep this thread is in calls of the functions that ``around`` was called with."""

    depth = 0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function``, whose calls count."""

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            self.depth += 1
            try:
                return function(*args, **kwargs)
            finally:
                self.depth -= 1

        return run


class Hooks(ABC):
    """Hooks on this process that are installed together, from ``install`` to ``remove``."""

    _handles: Sequence[Any] = ()

    @abstractmethod
    def _hooked(self) -> Sequence[Any]:
        """Install the hooks; returns their handles."""

    def install(self) -> None:
        """Start following."""
        self._handles = self._hooked()

    def remove(self) -> None:
        """Stop following."""
        for handle in self._handles:
            handle.remove()

    @contextlib.contextmanager
    def without_hooks(self) -> Iterator[None]:
        """A context without the hooks, which compilers would compile."""
        installed, self._handles = self._handles, ()
        for handle in installed:
            handle.remove()
        try:
            yield
        finally:
            if installed:
                self.install()
