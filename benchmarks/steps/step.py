"""What a captured step is: its name, the function that runs it, and what it needs."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

#: A process's own beginning on a device, and the reading of its history.
_START_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Step:
    """One entry of the registry; nothing of torch is imported before ``body`` is asked for.

    ``function`` in the module ``family`` runs it, with ``arguments``: it builds its model and does one step
    to warm up and a second one.
    """

    id: str
    family: str
    function: str
    gib: float
    """What it takes, roughly: a card with less need not try."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    alloc_conf: str = ""
    """PYTORCH_ALLOC_CONF of its process."""
    classes: tuple[str, ...] = ()
    """Of ``transformers``, which it imports."""
    seconds: float = 2.0
    """How long a run takes on a large card, roughly, beside the start of its process."""

    @property
    def module(self) -> str:
        """Where its function lies: a file beside this one, or a module of its own."""
        return self.family if "." in self.family else f"{__package__}.{self.family}"

    @property
    def expected_seconds(self) -> float:
        """Of both its processes, whose imports run while others use the device."""
        return 2 * (self.seconds + _START_SECONDS)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types only."""
        return {name: getattr(self, name) for name in Step.__slots__}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Step:
        """The inverse of ``to_json``."""
        return cls(**{**data, "classes": tuple(data["classes"])})

    def load(self) -> None:
        """Import all that it uses: what takes time before a run, and touches no device."""
        importlib.import_module(self.module)
        if self.classes:
            transformers = importlib.import_module("transformers")
            for name in self.classes:
                getattr(transformers, name)

    def body(self) -> None:
        """Run it."""
        self._function()(**self.arguments)

    def text(self) -> str:
        """What it does, in a line."""
        return (inspect.getdoc(self._function()) or "").partition("\n")[0]

    def _function(self) -> Callable[..., None]:
        function: Callable[..., None] = getattr(importlib.import_module(self.module), self.function)
        return function
