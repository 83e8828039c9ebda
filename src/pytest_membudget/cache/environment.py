"""Environment variables: those that a process reads, and those that libraries read in native code."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from .callers import LIBRARY, PYTEST, Callers
from .files import digest
from .reach import Names

#: What Python, torch, CUDA, Hugging Face's libraries and this plugin read, wherever they do.
PREFIXES = (
    "ACCELERATE_",
    "ATEN_",
    "BITSANDBYTES_",
    "BNB_",
    "CUBLAS",
    "CUDA",
    "CUDNN",
    "DS_",
    "FLASH_ATTENTION_",
    "HF_",
    "HUGGINGFACE_",
    "KMP_",
    "LC_",
    "LD_",
    "MEMBUDGET_",
    "MKL_",
    "NCCL_",
    "NVIDIA_",
    "NVTE_",
    "OMP_",
    "PEFT_",
    "PYTHON",
    "PYTORCH_",
    "SAFETENSORS_",
    "TOKENIZERS_",
    "TORCH",
    "TRANSFORMERS_",
    "TRITON_",
    "TRL_",
    "XFORMERS_",
)
NAMES = ("LANG", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")
#: Other in every run or process, and set by pytest and its plugins for whoever wants to know.
_EVERY_TIME = ("PYTEST_CURRENT_TEST", "PYTEST_VERSION", "PYTEST_XDIST_")
#: Of this plugin's own: where estimates are kept, and whose base a session is.
_SAYS_NOTHING = ("MEMBUDGET_CACHE_", "MEMBUDGET_FOREIGN_IMPORTS")
_NOT_NOTED = (*_EVERY_TIME, *_SAYS_NOTHING)
#: Bytes of an instruction or of an entry of its cache, in Python's bytecode.
_CODE_UNIT = 2


class WatchedEnvironment(os._Environ):  # type: ignore[type-arg]
    """``os.environ`` that notes the names it is asked for.

    Who copies all of it has asked for each, save libraries, which hand it on.
    """

    _callers: Callers
    _read: dict[str, None]
    _walk: tuple[int, int] | None
    _was_unwatched: bool

    def __getitem__(self, key: str) -> str:
        if isinstance(key, str) and key not in self._read and not key.startswith(_NOT_NOTED):
            self._note(key)
        return str(super().__getitem__(key))

    def __iter__(self) -> Iterator[str]:
        self._walk = None
        if self._callers.kind() in (LIBRARY, PYTEST):
            self._walk = _place(self._callers.frame())
        return super().__iter__()

    @contextmanager
    def unwatched(self) -> Iterator[None]:
        """Within, it is Python's own, and nothing is noted: then every name in the sources counts as read."""
        self._was_unwatched = True
        watched = self.__class__
        self.__class__ = os._Environ  # type: ignore[assignment]
        try:
            yield
        finally:
            self.__class__ = watched

    def _note(self, key: str) -> None:
        if self._callers.kind() == PYTEST:
            return
        if self._walk is None or not _is_same(self._walk, _place(self._callers.frame())):
            self._read[key] = None


def _place(frame: FrameType | None) -> tuple[int, int]:
    return (id(frame), frame.f_lasti) if frame is not None else (0, 0)


def _is_same(walk: tuple[int, int], place: tuple[int, int]) -> bool:
    """Python 3.12 has a loop over a generator at the loop's cache (2 bytes on) once it has specialised it."""
    return walk[0] == place[0] and abs(walk[1] - place[1]) <= _CODE_UNIT


def watch_environment(callers: Callers) -> dict[str, None]:
    """Make ``os.environ`` note what is read of it; the names come into what this returns."""
    read: dict[str, None] = {}
    environment = os.environ
    environment.__class__ = WatchedEnvironment
    vars(environment).update(_callers=callers, _read=read, _walk=None, _was_unwatched=False)
    return read


def was_unwatched() -> bool:
    """Whether variables may have been read that were not noted."""
    return bool(vars(os.environ).get("_was_unwatched"))


def names_in(source: str) -> list[str]:
    """What the text of a module may read: all its strings that can name variables, where it reads any."""
    if not any(word in source for word in ("environ", "getenv")):
        return []
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # not Python's, or of another Python
        return []
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return sorted({text for text in texts if isinstance(text, str) and text.isidentifier()})


def listed_variables(environment: Mapping[str, str], names: Names) -> dict[str, str | None]:
    """Digests of the variables that count whoever reads them."""
    listed = [name for name in sorted(environment) if name.startswith(PREFIXES) or name in NAMES]
    return variables(environment, [name for name in listed if not name.startswith(_SAYS_NOTHING)], names)


def variables(environment: Mapping[str, str], listed: list[str], names: Names) -> dict[str, str | None]:
    """Digests of the values of those ``listed``: values may be secrets. None for what is not set."""
    values = {name: environment.get(name) for name in listed}
    return {
        name: None
        if value is None
        else digest(f"{name}={names.text(value)}".encode("utf-8", "surrogateescape"))
        for name, value in values.items()
    }


def head_of_base(environment: Mapping[str, str]) -> str | None:
    """In a session that estimates a base of comparison the checkout that it is compared for."""
    watched = environment.get("MEMBUDGET_FOREIGN_IMPORTS")
    return str(json.loads(watched)["head"]) if watched else None
