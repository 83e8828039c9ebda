"""cuDNN's graph interface, called on a machine without a GPU.

From 9.8 on cuDNN plans work for a device that is described in JSON ("deviceless ahead-of-time compilation",
docs.nvidia.com/deeplearning/cudnn). Nothing is executed and no driver is asked. The library is that of the
wheel ``nvidia-cudnn-cu13`` (or ``-cu12``), which CUDA builds of PyTorch require. Constants: cudnn_graph.h of
cuDNN 9.26.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

#: cudnnGetVersion() of the first release that plans without a device
_OLDEST: Final = 90800
_FILE: Final = "libcudnn_graph.so.9"
_ENGINES: Final = "libcudnn_engines_runtime_compiled.so.9"
_CUBLAS_RELEASES: Final = (13, 12)

DATA_TYPE: Final = 1
BOOLEAN: Final = 2
INT64: Final = 3
FLOAT: Final = 4
DOUBLE: Final = 5
CONVOLUTION_MODE: Final = 7
HEURISTIC_MODE: Final = 8
NUMERICAL_NOTE: Final = 11
DESCRIPTOR: Final = 15
CHARACTER: Final = 24

#: cudnnBackendAttributeType_t to what its values are in C; the others are enumerations
_IN_C: Final[dict[int, Any]] = {
    BOOLEAN: ctypes.c_bool,
    INT64: ctypes.c_int64,
    FLOAT: ctypes.c_float,
    DOUBLE: ctypes.c_double,
    DESCRIPTOR: ctypes.c_void_p,
    CHARACTER: ctypes.c_char,
}

#: (cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, values)
Attribute: TypeAlias = tuple[int, int, Sequence[Any]]


class CudnnError(Exception):
    """cuDNN answered with an error: it has no such engine, or does not take the description."""


@functools.cache
def find_cudnn() -> ctypes.CDLL | None:
    """The cuDNN of this Python, loaded; None where there is none, or one too old to plan without a GPU.

    Nor is there one without cuBLASLt, or with engines that need the driver (9.27 and 9.28): the one would
    end the process when asked, the other plans nothing.
    """
    try:
        path = _path()
        library = ctypes.CDLL(path)
        ctypes.CDLL(str(Path(path).with_name(_ENGINES)) if os.sep in path else _ENGINES)
    except OSError:
        return None
    if not _has_cublas(path):
        return None
    library.cudnnGetVersion.restype = ctypes.c_size_t
    return library if library.cudnnGetVersion() >= _OLDEST else None


def _path() -> str:
    try:
        package = importlib.util.find_spec("nvidia.cudnn")
    except ModuleNotFoundError:
        package = None
    for folder in package.submodule_search_locations or () if package is not None else ():
        if (path := Path(folder) / "lib" / _FILE).exists():
            return str(path)
    return _FILE  # loaded already, or where the system looks


def _has_cublas(path: str) -> bool:
    """Whether cuDNN will find cuBLASLt: in a wheel's folder next to its own, or where the system looks."""
    if os.sep in path and any(Path(path).parents[2].glob("*/lib/libcublasLt.so.*")):
        return True
    for release in _CUBLAS_RELEASES:
        try:
            ctypes.CDLL(f"libcublasLt.so.{release}")
        except OSError:
            continue
        return True
    return False


class Question:
    """Descriptors of cuDNN's, made for one question and destroyed at its end.

    Every method raises ``CudnnError`` where cuDNN does.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._made: list[ctypes.c_void_p] = []

    def __enter__(self) -> Question:
        return self

    def __exit__(self, *error: object) -> None:
        while self._made:
            self._library.cudnnBackendDestroyDescriptor(self._made.pop())

    def describe(self, kind: int, *attributes: Attribute) -> ctypes.c_void_p:
        """A finished descriptor of ``kind`` (cudnnBackendDescriptorType_t)."""
        descriptor = self.empty(kind)
        for name, type_, values in attributes:
            array = _array(type_, values)
            count = ctypes.c_int64(len(values))
            _check(self._library.cudnnBackendSetAttribute(descriptor, name, type_, count, array))
        _check(self._library.cudnnBackendFinalize(descriptor))
        return descriptor

    def empty(self, kind: int) -> ctypes.c_void_p:
        """A descriptor that cuDNN is to fill."""
        descriptor = ctypes.c_void_p()
        _check(self._library.cudnnBackendCreateDescriptor(kind, ctypes.byref(descriptor)))
        self._made.append(descriptor)
        return descriptor

    def values(self, descriptor: ctypes.c_void_p, name: int, type_: int, most: int) -> list[int]:
        """Up to ``most`` numbers of an attribute."""
        array = _array(type_, [0] * most)
        return list(array[: self._read(descriptor, name, type_, most, array)])

    def parts(self, descriptor: ctypes.c_void_p, name: int, kind: int) -> list[ctypes.c_void_p]:
        """The descriptors of ``kind`` in an attribute that holds any number of them."""
        count = self._read(descriptor, name, DESCRIPTOR, 0, None)
        made = [self.empty(kind) for _ in range(count)]
        return made[: self._read(descriptor, name, DESCRIPTOR, count, _array(DESCRIPTOR, made))]

    def part(self, descriptor: ctypes.c_void_p, name: int, kind: int) -> ctypes.c_void_p:
        """The descriptor of ``kind`` in an attribute that holds one."""
        made = self.empty(kind)
        self._read(descriptor, name, DESCRIPTOR, 1, _array(DESCRIPTOR, [made]))
        return made

    def _read(self, descriptor: ctypes.c_void_p, name: int, type_: int, most: int, array: Any) -> int:
        count = ctypes.c_int64()
        _check(
            self._library.cudnnBackendGetAttribute(
                descriptor, name, type_, ctypes.c_int64(most), ctypes.byref(count), array
            )
        )
        return count.value


def _array(type_: int, values: Sequence[Any]) -> Any:
    plain = [value.value if type_ == DESCRIPTOR else value for value in values]
    return (_IN_C.get(type_, ctypes.c_int) * len(values))(*plain)


def _check(status: int) -> None:
    if status:
        raise CudnnError(f"cuDNN status {status}")
