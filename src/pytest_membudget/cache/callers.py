"""Classifies the caller of a function: the user's code, a library, pytest, this plugin, or an import."""

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

USER, LIBRARY, PYTEST, PLUGIN, STANDARD = "user", "library", "pytest", "this plugin", "standard library"
_HERE = os.path.dirname(os.path.abspath(__file__))
#: What passes on what others request: this package, and what opens files of tensors for libraries.
_PASSING_ON = (_HERE, os.path.join(PACKAGE, "devices", "stand_in", "saving"))
#: What finds modules and distributions.
_SEARCHES = (
    "<frozen importlib",
    os.path.join("importlib", "metadata"),
    os.path.join("assertion", "rewrite.py"),
)
#: Functions of the standard library that pass on to their callers what they have found.
_HANDING_ON = ("stat", "lstat", "samefile", "_stat")


class Callers:
    """Classifies callers by the files of their code; each file is looked at once."""

    def __init__(self) -> None:
        self._kind_of = cache(self._looked_at)
        paths = sysconfig.get_paths()
        self._standard = (paths["stdlib"], paths["platstdlib"], os.path.realpath(paths["stdlib"]))
        self._sites = (paths["purelib"], paths["platlib"])
        self._installed = installed_folders()
        self._pytest = tuple(os.path.dirname(str(module.__file__)) for module in (_pytest, pluggy))

    def is_tests(self) -> bool:
        """Whether it is the test's code that calls, or a library, or pytest on behalf of the test."""
        kinds = (kind for frame in _frames() if (kind := self._kind(frame)) != STANDARD)
        kind = next(kinds, USER)
        if kind != PYTEST:
            return kind != PLUGIN
        return next((kind for kind in kinds if kind != PYTEST), PLUGIN) == USER

    def is_import(self) -> bool:
        """Whether Python itself, or pytest, is looking for a module or a distribution."""
        file = next(_codes()).co_filename
        return any(text in file for text in _SEARCHES)

    def function(self) -> str:
        """The name of the calling function, if it is the standard library's; else empty."""
        for code in _codes():
            made_by_others = code.co_filename.startswith("<") and not code.co_filename.startswith("<frozen ")
            if self._kind_of(code.co_filename) != STANDARD or made_by_others:
                break
            if code.co_name not in _HANDING_ON:
                return code.co_name
        return ""

    def is_installations(self, *, in_test: bool) -> bool:
        """Whether a library calls because it is imported, or a plugin at the start of the session.

        Such a call happens in every process. ``in_test``: while a test runs, which excludes pytest's plugins.
        """
        for frame in _frames():
            kind = self._kind(frame)
            if kind == LIBRARY and frame.f_code.co_name == "<module>":
                return True
            if kind == USER:
                return False
        return not in_test

    def _kind(self, frame: FrameType) -> str:
        return self._kind_of(frame.f_code.co_filename)

    def _looked_at(self, file: str) -> str:
        if file.startswith("<") or is_below(file, _PASSING_ON):  # frozen, or made by other code
            return STANDARD
        if is_below(file, self._pytest):
            return PYTEST
        if is_below(file, [PACKAGE]):
            return PLUGIN
        if is_below(file, self._standard) and not is_below(file, self._sites):
            return STANDARD
        return LIBRARY if is_below(file, self._installed) else USER


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _codes() -> Iterator[CodeType]:
    """The frames of the stack, the innermost first, without our own."""
    return (frame.f_code for frame in _frames() if not is_below(frame.f_code.co_filename, [_HERE]))
