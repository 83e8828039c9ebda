"""Libraries that look for Triton where it is not installed.

PyTorch's CUDA builds for Linux require it (the wheels' metadata, 2.11 to 2.13), and its CPU builds do not. So
on a machine with a GPU such a library runs kernels where its own slower code runs here, with more memory.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Iterable
from types import FrameType
from typing import NamedTuple

from ...tracking.running_code.source import shown_path

ABSENT = (
    "{package} looks for Triton ({place}), which is not installed here and comes with PyTorch's CUDA builds: "
    "what {package} runs without it is what was estimated; pip install triton to have the other"
)

#: Who carries out imports for others.
_IMPORTING = ("importlib", "_frozen_importlib", "_frozen_importlib_external")
#: Who asks for the sake of others: torch's compiler, which has its own report.
_UNCONCERNED = ("torch", "pytest_membudget")


class _Asker(NamedTuple):
    package: str
    #: where its code lies: a folder, or one file
    home: str
    file: str
    line: int


class AbsentTriton(importlib.abc.MetaPathFinder):
    """Keeps who looks for ``name``, a package that is not there."""

    def __init__(self, name: str = "triton") -> None:
        self._name = name
        self._askers: dict[str, _Asker] = {}

    def install(self) -> None:
        """Listen from here on, if it is not there."""
        if importlib.util.find_spec(self._name) is None:
            sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        """Nothing; who asks is kept."""
        if name == self._name:
            asker = _asker(sys._getframe(1))
            if asker is not None:
                self._askers.setdefault(asker.package, asker)

    def texts(self, ran: Iterable[str], root: str) -> list[str]:
        """A sentence for each library that looked for it, and of which a file is among those that ``ran``."""
        return [
            ABSENT.format(package=one.package, place=f"{shown_path(one.file, root)}:{one.line}")
            for one in self._askers.values()
            if any(file.startswith(one.home) for file in ran)
        ]


def _asker(frame: FrameType | None) -> _Asker | None:
    """Whose code wants to know: the caller of another library's function that looks, else who looks."""
    while frame is not None and _package(frame) in _IMPORTING:
        frame = frame.f_back
    looks = frame
    while frame is not None and looks is not None and _package(frame) == _package(looks):
        frame = frame.f_back
    asker = looks if frame is None or _package(frame) in _IMPORTING else frame
    if asker is None or _package(asker) in _UNCONCERNED:
        return None
    return _Asker(_package(asker), _home(asker), asker.f_code.co_filename, asker.f_lineno)


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _home(frame: FrameType) -> str:
    package = sys.modules.get(_package(frame))
    folders = list(getattr(package, "__path__", ()))
    return os.path.join(folders[0], "") if folders else frame.f_code.co_filename
