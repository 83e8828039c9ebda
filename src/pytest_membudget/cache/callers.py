"""Who asks for a path: the test and its libraries, or pytest, this plugin and imports for themselves."""

import os
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from types import CodeType, FrameType

import _pytest
import pluggy

from ..tracking.running_code.own_files import installed_own_files
from .paths import PACKAGE, installed_folders, is_below

_USER, _LIBRARY, _STANDARD, _PYTEST, _PASSING = "user", "library", "standard", "pytest", "passing on"
#: This plugin, and imports.
_ITSELF = "for itself"
_HERE = os.path.dirname(os.path.abspath(__file__))
#: What passes on what others request: this package, and what opens files of tensors for libraries.
_PASSING_ON = (_HERE, os.path.join(PACKAGE, "devices", "stand_in", "saving"))
_OF_PYTEST = tuple(os.path.dirname(str(module.__file__)) for module in (_pytest, pluggy))
_PATHS = sysconfig.get_paths()
_STANDARD_FOLDERS = (_PATHS["stdlib"], _PATHS["platstdlib"], os.path.realpath(_PATHS["stdlib"]))
#: What finds modules and distributions.
_SEARCHES = ("<frozen importlib", "importlib/metadata", "assertion/rewrite.py")
#: Compilers of kernels: what their tools make follows from the code and from the versions that are installed.
_COMPILERS = ("-packages/triton/", "-packages/torch/_dynamo/", "-packages/torch/_inductor/")
#: Functions of the standard library that pass on to their callers what they have found.
_HANDING_ON = ("stat", "lstat", "samefile", "_stat")


def asking() -> tuple[bool, str]:
    """Whether the test or its libraries ask, and by which function of the standard library, if by one.

    The first on the stack that is not the standard library asks; pytest does so for who calls it.
    """
    function, kind, is_pytests = "", "", False
    for code in _codes():
        kind = _kind(code.co_filename)
        is_pytests = is_pytests or kind == _PYTEST
        if kind in (_USER, _LIBRARY, _ITSELF):
            break
        if kind == _STANDARD and not function and code.co_name not in _HANDING_ON:
            function = code.co_name
    return kind == _USER or not (is_pytests or kind == _ITSELF), function


def compiles() -> bool:
    """Whether a compiler of kernels asks: Triton or inductor, through the standard library at most."""
    files = (code.co_filename for code in _codes())
    first = next((file for file in files if _kind(file) not in (_STANDARD, _PASSING)), "")
    return _kind(first) == _LIBRARY and any(folder in first for folder in _COMPILERS)


def is_installations(*, in_test: bool) -> bool:
    """Whether a library calls because it is imported, or a plugin at the start of the session.

    Such a call happens in every process. ``in_test``: while a test runs, which excludes pytest's plugins.
    """
    for code in _codes():
        kind = _kind(code.co_filename)
        is_user = kind == _USER and not code.co_filename.startswith("<")
        if is_user or (kind == _LIBRARY and code.co_name == "<module>"):
            return not is_user
    return not in_test


@cache
def _kind(file: str) -> str:
    if any(text in file for text in _SEARCHES):
        return _ITSELF
    if file.startswith("<"):  # code that is made while it runs is the user's
        return _STANDARD if file.startswith("<frozen ") else _USER
    for kind, folders in ((_PASSING, _PASSING_ON), (_PYTEST, _OF_PYTEST), (_ITSELF, (PACKAGE,))):
        if is_below(file, folders):
            return kind
    if not is_below(file, installed_folders()) or file in installed_own_files():
        return _USER
    return _LIBRARY if "-packages/" in file or not is_below(file, _STANDARD_FOLDERS) else _STANDARD


def _codes() -> Iterator[CodeType]:
    """The code of the frames of the stack, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back
