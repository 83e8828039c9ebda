"""Libraries that take the places of those of NVIDIA's that torch links, which need not be installed.

Under each of their sonames torch's libraries find the symbol versions that they ask for, and functions that
refuse by name where ours defines none. cuDNN's own library plans convolutions: it stays if it is installed.
"""

import hashlib
import json
import platform
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ....errors import UsageMistake
from ..building import LIBRARY, CannotBuild
from ..keeping import kept_folder
from .elf_reader import NotSharedObject, defined_functions, needed_symbols, read_shared_object
from .elf_writer import written_library
from .installed import find_installed, folders_of
from .looked_up_names import LOOKED_UP, asking_files, looked_up_names
from .release_numbers import ReleaseNumbers, release_numbers

#: Sonames of NVIDIA's: cudart, cublas, cudnn, cupti, nvrtc, nvshmem, nccl ...
_NVIDIA: Final = re.compile(r"lib(cu(?!rl)|nv|nccl)")
_CUDNN: Final = re.compile(r"libcudnn\.so\.")
_LIST: Final = "linked.json"


@dataclass(frozen=True, slots=True)
class LinkedLibraries:
    """What is preloaded in the places of NVIDIA's libraries, and what these would say of themselves."""

    paths: tuple[Path, ...]
    releases: ReleaseNumbers


@dataclass(frozen=True, slots=True)
class _Torch:
    """What torch's libraries need of NVIDIA's."""

    libraries: tuple[Path, ...]
    sonames: tuple[str, ...]
    versions: Mapping[str, tuple[str, ...]]
    """Versions of symbols, by soname."""
    search_path: tuple[str, ...]


def linked_libraries(torch: Path, built: Path, environment: Mapping[str, str]) -> LinkedLibraries:
    """Those for the torch in the folder ``torch``, which has its ``lib``: from the cache, or written now.

    Raises ``CannotBuild``.
    """
    try:
        needs = _needs_of(torch / "lib")
        installed = find_installed(needs.sonames, folders_of(needs.search_path, torch / "lib", environment))
        key = _key(torch, needs, installed, built)

        def write(folder: Path) -> None:
            _write(folder, torch, needs, installed, built)

        folder = kept_folder(
            environment, f"linked-{key}", lambda folder: _read_list(folder) is not None, write
        )
    except (NotSharedObject, OSError) as error:
        raise CannotBuild(str(error)) from None
    read = _read_list(folder)
    if read is None:
        raise CannotBuild(f"{folder} is being changed by another program")
    return read


def _needs_of(folder: Path) -> _Torch:
    libraries = tuple(path for path in sorted(folder.glob("*.so*")) if not _NVIDIA.match(path.name))
    sonames: dict[str, None] = dict.fromkeys(LOOKED_UP)  # loaded by name where it is not linked
    versions: dict[str, dict[str, None]] = {}
    search_path: dict[str, None] = {}
    for path in libraries:
        found = read_shared_object(path)
        search_path |= dict.fromkeys(found.search_path)
        sonames |= dict.fromkeys(name for name in found.needed if _NVIDIA.match(name))
        for soname, asked in found.needed_versions.items():
            versions.setdefault(soname, {}).update(dict.fromkeys(asked))
    return _Torch(
        libraries,
        tuple(sonames),
        {soname: tuple(versions.get(soname, ())) for soname in sonames},
        tuple(search_path),
    )


def _key(torch: Path, needs: _Torch, installed: Mapping[str, Path], built: Path) -> str:
    """Changes with all that the libraries are made of."""
    hashed = hashlib.sha256(platform.machine().encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        hashed.update(source.read_bytes())
    asking = [path for soname in LOOKED_UP for path in asking_files(soname, torch / "lib", installed)]
    for path in (
        torch / "version.py", *needs.libraries, *installed.values(), *asking, (built / LIBRARY).resolve(),
    ):  # fmt: skip
        status = path.stat()
        hashed.update(f"\n{path}:{status.st_size}:{status.st_mtime_ns}".encode())
    return hashed.hexdigest()[:24]


def _write(folder: Path, torch: Path, needs: _Torch, installed: Mapping[str, Path], built: Path) -> None:
    library = (built / LIBRARY).resolve()
    own = defined_functions(library)
    refusing = _refused_names(needs, installed, own)
    for soname in LOOKED_UP:
        asked_for = looked_up_names(soname, asking_files(soname, torch / "lib", installed))
        refusing[soname] |= dict.fromkeys(sorted(asked_for - own))
    written = [soname for soname in needs.sonames if not (_CUDNN.match(soname) and soname in installed)]
    for soname in written:
        content = written_library(
            platform.machine(), soname, str(library), needs.versions[soname], refusing[soname]
        )
        (folder / _file_name(soname)).write_bytes(content)
    releases = release_numbers(torch, installed)
    # last: what has it is complete
    (folder / _LIST).write_text(
        json.dumps({"libraries": written, "releases": releases.to_json()}), encoding="utf-8"
    )


def _file_name(soname: str) -> str:
    """Not the soname: torch loads NVIDIA's libraries by their paths if it finds a "libcudart.so" mapped.

    That is ``_load_global_deps`` of torch/__init__.py, 2.13. ld.so goes by the soname inside the file.
    """
    return soname.removeprefix("lib")


def _refused_names(
    needs: _Torch, installed: Mapping[str, Path], own: frozenset[str]
) -> dict[str, dict[str, str | None]]:
    """By soname, the functions that ``own`` has not, each with its version.

    They are those that torch links and those that an installed library has, for extensions.
    """
    found: dict[str, dict[str, str | None]] = {soname: {} for soname in needs.sonames}
    for path in needs.libraries:
        for symbol in needed_symbols(path):
            soname = symbol.library or _owner_of(symbol.name, needs.sonames)
            if soname in found and symbol.name not in own:
                found[soname][symbol.name] = symbol.version
    for soname, path in installed.items():
        version = next(iter(needs.versions[soname]), None)
        for name in sorted(defined_functions(path) - own):
            if _owner_of(name, needs.sonames) == soname:
                found[soname].setdefault(name, version)
    return found


def _owner_of(name: str, sonames: Iterable[str]) -> str | None:
    """The library whose functions begin as ``name`` does: cuSPARSELt's before cuSPARSE's."""
    plain = name.lstrip("_").lower()
    owners = [soname for soname in sonames if plain.startswith(_beginning_of(soname))]
    return max(owners, key=lambda soname: len(_beginning_of(soname)), default=None)


def _beginning_of(soname: str) -> str:
    """What the names of a library's functions begin with: ``nvshmem`` of libnvshmem_host.so.3."""
    stem = soname.removeprefix("lib").split(".")[0].split("_")[0].lower()
    return {"cudart": "cuda", "cuda": "cu", "nvidia-ml": "nvml"}.get(stem, stem)


def _read_list(folder: Path) -> LinkedLibraries | None:
    """None where something is missing."""
    try:
        read: Any = json.loads((folder / _LIST).read_text(encoding="utf-8"))
        paths = tuple(folder / _file_name(soname) for soname in read["libraries"])
        releases = ReleaseNumbers.from_json(read["releases"], checked=True)
    except (OSError, ValueError, KeyError, TypeError, UsageMistake):
        return None
    return LinkedLibraries(paths, releases) if all(path.is_file() for path in paths) else None
