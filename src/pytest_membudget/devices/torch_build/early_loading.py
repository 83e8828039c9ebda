"""Loads torch's shared libraries in a thread, while the process imports what needs no torch."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from pathlib import Path
from threading import Thread
from typing import Final

#: As ``import torch`` loads them: the first for all that follow (``_load_global_deps``: torch/__init__.py,
#: 2.13), then what ``torch._C`` is linked to. No Python is in it: it would wait for an import, that for the
#: loader where its module is compiled.
_LIBRARIES: Final = (
    ("libtorch_global_deps.so", os.RTLD_NOW | os.RTLD_GLOBAL),
    ("libtorch_cuda.so", os.RTLD_NOW),
)


def begin_loading() -> Thread:
    """The thread, which is to be joined before torch is imported: that reports what cannot be loaded."""
    spec = importlib.util.find_spec("torch")
    folders = [Path(spec.origin).parent / "lib"] if spec is not None and spec.origin else []
    thread = Thread(target=_load, args=folders, daemon=True)
    thread.start()
    return thread


def _load(*folders: Path) -> None:
    # a call of the function, since ``ctypes.CDLL`` keeps all other threads from running (3.10 to 3.14)
    load = ctypes.CDLL(None).dlopen
    load.argtypes, load.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_void_p
    for folder in folders:
        for name, mode in _LIBRARIES:
            load(os.fsencode(folder / name), mode)
