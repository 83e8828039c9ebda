"""Who has called: the user's code, a library, pytest, or an import."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from types import FrameType

import _pytest
import pluggy

from .reach import installed_folders, is_below

USER, LIBRARY, PYTEST = "user", "library", "pytest"
_STANDARD = "standard library"
_HERE = os.path.dirname(os.path.abspath(__file__))
#: How Python looks for modules and distributions.
_SEARCHES = ("<frozen importlib", os.path.join("importlib", "metadata"))


class Callers:
    """Tells callers by the files of their code; each file is looked at once."""

    def __init__(self) -> None:
        self._kinds: dict[str, str] = {}
        paths = sysconfig.get_paths()
        self._standard = (paths["stdlib"], paths["platstdlib"], os.path.realpath(paths["stdlib"]))
        self._sites = (paths["purelib"], paths["platlib"])
        self._installed = installed_folders()
        self._pytest = tuple(os.path.dirname(str(module.__file__)) for module in (_pytest, pluggy))

    def is_pytest(self) -> bool:
        """Whether pytest itself, by whatever of the standard library, is at it."""
        return self.kind() == PYTEST

    def is_import(self) -> bool:
        """Whether Python itself is looking for a module or a distribution."""
        frame = next((frame for frame in _frames() if not is_below(frame.f_code.co_filename, [_HERE])), None)
        return frame is not None and any(text in frame.f_code.co_filename for text in _SEARCHES)

    def is_installations(self, *, in_test: bool) -> bool:
        """Whether a library does it because it is imported, or a plugin at the start of the session.

        So it does in every process. ``in_test``: then no plugin of pytest's has a reason to.
        """
        for frame in _frames():
            if self._is(frame, LIBRARY) and frame.f_code.co_name == "<module>":
                return True
            if self._is(frame, USER):
                return False
        return not in_test

    def kind(self) -> str:
        """Whose the innermost code is that is not the standard library's."""
        frame = self.frame()
        return USER if frame is None else self._kind_of(frame.f_code.co_filename)

    def frame(self) -> FrameType | None:
        """The innermost frame that is not the standard library's."""
        return next((frame for frame in _frames() if not self._is(frame, _STANDARD)), None)

    def _is(self, frame: FrameType, kind: str) -> bool:
        return self._kind_of(frame.f_code.co_filename) == kind

    def _kind_of(self, file: str) -> str:
        kind = self._kinds.get(file)
        if kind is None:
            kind = self._kinds[file] = self._looked_at(file)
        return kind

    def _looked_at(self, file: str) -> str:
        if file.startswith("<"):  # frozen, or made by other code
            return _STANDARD
        if is_below(file, self._pytest):
            return PYTEST
        if is_below(file, [_HERE]):  # wherever it is installed, it hands on what others ask for
            return _STANDARD
        if is_below(file, self._standard) and not is_below(file, self._sites):
            return _STANDARD
        return LIBRARY if is_below(file, self._installed) else USER


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back
