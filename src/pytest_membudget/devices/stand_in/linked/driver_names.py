"""Functions of CUDA's driver that a library asks for by name while it runs, as cuDNN and PyTorch do."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

#: A separate text among others: "cuMemAlloc_v2". The shortest that is asked for is "cuInit".
_NAME: Final = re.compile(rb"\0(cu[A-Z][A-Za-z0-9_]{3,60})(?=\0)")
DRIVER: Final = "libcuda.so.1"


def asking_libraries(torch_libraries: Path, installed: Mapping[str, Path]) -> tuple[Path, ...]:
    """The libraries, of torch's and cuDNN's, that have names of the driver's functions.

    c10/cuda/driver_api.h of torch 2.11 to 2.15 has PyTorch's. Each of cuDNN 9's libraries has the same: its
    smallest is read.
    """
    found = [torch_libraries / "libc10_cuda.so"]
    for soname, path in installed.items():
        if soname.startswith("libcudnn.so."):
            found.append(path.with_name(soname.replace("libcudnn.", "libcudnn_graph.")))
    return tuple(path for path in found if path.is_file())


def driver_names(libraries: Iterable[Path]) -> frozenset[str]:
    """The names in the files of ``libraries``. Raises ``OSError``."""
    found: set[bytes] = set()
    for path in libraries:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            found.update(_NAME.findall(data))
    return frozenset(name.decode() for name in found)
