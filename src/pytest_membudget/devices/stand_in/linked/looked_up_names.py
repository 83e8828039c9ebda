"""Functions of CUDA's driver and of NVML that are looked up by name: by cuDNN, PyTorch and pynvml."""

import mmap
import re
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Final

DRIVER: Final = "libcuda.so.1"
NVML: Final = "libnvidia-ml.so.1"
#: In a library a separate text among others: "cuMemAlloc_v2". The shortest that is asked for is "cuInit".
_NAMES: Final = MappingProxyType(
    {DRIVER: rb"\0(cu[A-Z][A-Za-z0-9_]{3,60})(?=\0)", NVML: rb"\b(nvml[A-Z][A-Za-z0-9_]{3,60})\b"}
)
LOOKED_UP: Final = tuple(_NAMES)


def asking_files(soname: str, torch_libraries: Path, installed: Mapping[str, Path]) -> tuple[Path, ...]:
    """The files that have the names of functions of ``soname``: libraries of torch's and cuDNN's, and pynvml.

    c10/cuda/driver_api.h of torch 2.11 to 2.15 has PyTorch's. Each of cuDNN 9's libraries has the same: its
    smallest is read.
    """
    found = [torch_libraries / "libc10_cuda.so"]
    if soname == NVML:
        found += _sources_of_pynvml()
    else:
        cudnn = [path for name, path in installed.items() if name.startswith("libcudnn.so.")]
        found += [path.with_name(path.name.replace("libcudnn.", "libcudnn_graph.")) for path in cudnn]
    return tuple(path for path in found if path.is_file())


def _sources_of_pynvml() -> list[Path]:
    """A module of that name, or those of a package: by it torch.cuda asks for utilisation and clocks."""
    try:
        spec = find_spec("pynvml")
    except (ImportError, ValueError):
        return []
    if spec is None or spec.origin is None:
        return []
    folders = spec.submodule_search_locations
    return sorted(Path(folders[0]).glob("*.py")) if folders else [Path(spec.origin)]


def looked_up_names(soname: str, files: Iterable[Path]) -> frozenset[str]:
    """The names of functions of ``soname`` in ``files``. Raises ``OSError``."""
    found: set[bytes] = set()
    for path in files:
        if path.stat().st_size:
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                found.update(re.findall(_NAMES[soname], data))
    return frozenset(name.decode() for name in found)
