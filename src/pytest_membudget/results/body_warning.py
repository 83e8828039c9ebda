"""BodyWarning: a warning of a test's body, which ran in a worker, as pytest's summary shows it."""

import builtins
import sys
import warnings
from dataclasses import dataclass
from typing import Annotated

from ..json_object import JsonObject, LineNumber, Lines, text


@dataclass(frozen=True, slots=True)
class BodyWarning(JsonObject):
    """One warning: its category, text and place."""

    category: Annotated[str, text()]
    """The class, with its module: ``builtins.UserWarning``."""
    base: Annotated[str, text()]
    """The built-in class that it is one of."""
    message: Lines
    file: Annotated[str, text()]
    line: LineNumber

    @classmethod
    def of(cls, recorded: warnings.WarningMessage) -> "BodyWarning":
        """``recorded``, as plain values."""
        category = recorded.category
        base = next(one.__name__ for one in category.__mro__ if one.__module__ == "builtins")
        name = f"{category.__module__}.{category.__qualname__}"
        return cls(name, base, str(recorded.message), recorded.filename, max(1, recorded.lineno))

    def recorded(self) -> warnings.WarningMessage:
        """The warning as Python records it; of its built-in class where its own is not imported here."""
        module, _, name = self.category.rpartition(".")
        category = getattr(sys.modules.get(module), name, None)
        if not isinstance(category, type) or not issubclass(category, Warning):
            category = getattr(builtins, self.base)
        return warnings.WarningMessage(self.message, category, self.file, self.line)
