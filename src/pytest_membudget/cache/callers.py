"""Who asks for a path: the test and its libraries, pytest, this plugin, or an import."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from types import CodeType, FrameType

import _pytest
import pluggy

from .paths import PACKAGE, installed_folders, is_below

TEST, PYTEST, PLUGIN, IMPORT = "test", "pytest", "this plugin", "import"
_USER, _LIBRARY, _STANDARD, _MADE, _PASSING = "user", "library", "standard library", "made", "passing on"
_BELOW = (_STANDARD, _PASSING)
_HERE = os.path.dirname(os.path.abspath(__file__))
#: What passes on what others request: this package, and what opens files of tensors for libraries.
_PASSING_ON = (_HERE, os.path.join(PACKAGE, "devices", "stand_in", "saving"))
#: What finds modules and distributions.
_SEARCHES = ("importlib/metadata", "assertion/rewrite.py")
#: Compilers of kernels: what their tools make follows from the code and from the versions that are installed.
_COMPILERS = ("-packages/triton/", "-packages/torch/_inductor/")
#: Functions of the standard library that pass on to their callers what they have found.
_HANDING_ON = ("stat", "lstat", "samefile", "_stat")


class Callers:
    """Classifies callers by the files of their code; each file is looked at once."""

    def __init__(self) -> None:
        self._kind = cache(self._looked_at)
        paths = sysconfig.get_paths()
        self._standard = (paths["stdlib"], paths["platstdlib"], os.path.realpath(paths["stdlib"]))
        self._installed = installed_folders()
        self._pytest = tuple(os.path.dirname(str(module.__file__)) for module in (_pytest, pluggy))

    def is_standard(self, code: CodeType) -> bool:
        """Whether ``code`` is the standard library's."""
        return self._kind(code.co_filename) == _STANDARD

    def asking(self) -> tuple[str, str]:
        """Who asks, and by which function of the standard library; empty if by none.

        The first on the stack that is not the standard library; pytest asks on behalf of who calls it.
        """
        function, kind, is_pytests = "", "", False
        for code in _codes():
            kind = self._kind(code.co_filename)
            is_pytests = is_pytests or kind == PYTEST
            if kind not in (PYTEST, *_BELOW):
                break
            if kind == _STANDARD and not function and code.co_name not in _HANDING_ON:
                function = code.co_name
        if is_pytests and kind not in (_USER, _MADE):
            return PYTEST, function
        return (kind if kind in (PLUGIN, IMPORT) else TEST), function

    def compiles(self) -> bool:
        """Whether a compiler of kernels asks: Triton or inductor, through the standard library at most."""
        files = (code.co_filename for code in _codes())
        first = next((file for file in files if self._kind(file) not in _BELOW), "")
        return self._kind(first) == _LIBRARY and any(folder in first for folder in _COMPILERS)

    def is_installations(self, *, in_test: bool) -> bool:
        """Whether a library calls because it is imported, or a plugin at the start of the session.

        Such a call happens in every process. ``in_test``: while a test runs, which excludes pytest's plugins.
        """
        for code in _codes():
            kind = self._kind(code.co_filename)
            if kind == _USER or (kind == _LIBRARY and code.co_name == "<module>"):
                return kind == _LIBRARY
        return not in_test

    def _looked_at(self, file: str) -> str:
        if file.startswith("<frozen importlib") or any(text in file for text in _SEARCHES):
            return IMPORT
        if file.startswith("<"):
            return _STANDARD if file.startswith("<frozen ") else _MADE
        if is_below(file, _PASSING_ON):
            return _PASSING
        if is_below(file, self._pytest):
            return PYTEST
        if is_below(file, [PACKAGE]):
            return PLUGIN
        if is_below(file, self._installed):
            is_library = "-packages/" in file or not is_below(file, self._standard)
            return _LIBRARY if is_library else _STANDARD
        return _USER


def _codes() -> Iterator[CodeType]:
    """The code of the frames of the stack, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back
