"""SourceFinder: the line of the user's code that is running, and what is around it."""

import ast
import os
import re
import sys
import sysconfig
from collections.abc import Iterable
from functools import cache
from types import CodeType, FrameType
from typing import Any, NamedTuple

from .own_files import installed_own_files

#: Installed packages are below one of these folders, also in a virtual environment inside a checkout.
PACKAGE_FOLDERS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")

_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), "")
#: What runs between the user's lines and PyTorch; what users call, as ``assume``, is not hidden.
_HIDDEN_OWN = ("allocator", "cache", "devices", "scenarios", "tracking", "worker")
_STEPS = os.path.join(_PACKAGE, "steps", "")
#: Code that inductor writes: ``tr/ctr76oi....py`` (``code_hash`` and ``get_path`` of
#: torch/_inductor/codecache.py, 2.13).
_COMPILED = re.compile(r"[/\\](\w\w)[/\\]c\1\w{49}\.py$")


def is_own(filename: str) -> bool:
    """Whether a file is this package's, without ``steps``, which count as the user's code."""
    return filename.startswith(_PACKAGE) and not filename.startswith(_STEPS)


def is_compiled(filename: str) -> bool:
    """Whether a file is one that ``torch.compile`` has written."""
    return _COMPILED.search(filename) is not None


class Place(NamedTuple):
    """A line that runs; and where that is a library's, the line of the user's own that led to it."""

    file: str | None
    line: int
    own_file: str | None = None
    own_line: int = 0

    @property
    def name(self) -> str:
        """As ``file:line``."""
        return f"{self.file}:{self.line}"

    def shown(self, root: str) -> str:
        """As in ``test_a.py:14 (transformers/masking_utils.py:812)``; paths are relative to ``root``."""
        if self.file is None:
            return "torch"
        text = f"{shown_path(self.file, root)}:{self.line}"
        if self.own_file is None:
            return text
        return f"{shown_path(self.own_file, root)}:{self.own_line} ({text})"


class SourceFinder:
    """Finds the nearest frame that is not PyTorch's, pytest's, Python's, ours or a compiler's.

    That line is the user's own, or a model library's. Site-packages may lie inside the folder of the
    standard library, and are not part of it.
    """

    def __init__(
        self, hidden_folders: Iterable[str], standard_library: str, installed_own: Iterable[str] = ()
    ) -> None:
        """``installed_own``: files of installed packages that are the user's."""
        folders = (os.path.join(os.path.abspath(folder), "") for folder in hidden_folders)
        self._hidden = ("<", *folders)  # <string>, <frozen importlib._bootstrap>: code without a file
        self._standard_library = os.path.join(os.path.abspath(standard_library), "")
        self._installed_own = frozenset(installed_own)
        #: by a code's id, which is unique while the entry holds it: the code, and its file if that is shown
        self._known: dict[int, tuple[CodeType, str | None]] = {}

    def find(self, depth: int = 1) -> tuple[str | None, int]:
        """The file and line ``depth`` frames up or further; ``(None, 0)`` if no frame is the user's."""
        try:
            frame: FrameType | None = sys._getframe(depth)
        except ValueError:  # a thread of autograd's engine, below which no Python runs
            return None, 0
        known = self._known
        while frame is not None:
            code = frame.f_code
            entry = known.get(id(code))
            if entry is None:
                entry = known[id(code)] = (code, code.co_filename if self.shows(code.co_filename) else None)
            if entry[1] is not None:
                return entry[1], frame.f_lineno
            frame = frame.f_back
        return None, 0

    def place(self, depth: int = 1) -> Place:
        """As ``find``, with the user's own line."""
        file, line = self.find(depth + 1)
        if file is None or self.is_users(file):
            return Place(file, line)
        frame: FrameType | None = sys._getframe(depth)
        while frame is not None and not self.is_users(frame.f_code.co_filename):
            frame = frame.f_back
        return Place(file, line, *((frame.f_code.co_filename, frame.f_lineno) if frame is not None else ()))

    def shows(self, name: str) -> bool:
        """Whether the file of that name is the user's or that of a library they use."""
        if name.startswith(self._hidden) or is_compiled(name):
            return False
        return not name.startswith(self._standard_library) or any(part in name for part in PACKAGE_FOLDERS)

    def is_users(self, name: str) -> bool:
        """Whether the file of that name is the user's: not a library's and not this package's."""
        is_installed = any(part in name for part in PACKAGE_FOLDERS) and name not in self._installed_own
        return self.shows(name) and not is_installed and not name.startswith(_PACKAGE)


@cache
def users_source() -> SourceFinder:
    """The source finder of this environment."""
    import _pytest  # imported here: reports use this module without torch
    import pluggy
    import torch

    own = [os.path.join(_PACKAGE, name) for name in _HIDDEN_OWN]
    others = [os.path.dirname(str(module.__file__)) for module in (torch, _pytest, pluggy)]
    return SourceFinder([*others, *own], sysconfig.get_paths()["stdlib"], installed_own_files())


def shown_path(filename: str, root: str) -> str:
    """``filename`` for a report: relative to ``root``, or to the site-packages folder it lies in."""
    for folder in PACKAGE_FOLDERS:
        head, found, tail = filename.rpartition(folder)
        if found and head:
            return tail.replace(os.sep, "/")
    relative = os.path.relpath(filename, root)
    return (filename if relative.startswith("..") else relative).replace(os.sep, "/")


def innermost(tree: ast.AST, line: int, kinds: tuple[type[ast.AST], ...], *, simple: bool = False) -> Any:
    """The innermost node of ``kinds`` around ``line``, or None; ``simple``: of those without a body."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, kinds)
        and not (simple and hasattr(node, "body"))
        and getattr(node, "lineno", 0) <= line <= (getattr(node, "end_lineno", 0) or 0)
    ]
    return max(around, key=lambda node: getattr(node, "lineno", 0), default=None)
