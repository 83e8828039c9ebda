"""The stand-in's libraries: those of the wheel, or built once into a cache."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...cache.store import cache_folder
from .compiling import (
    FLAGS,
    LIBRARY,
    MACHINES,
    NAMED,
    SOURCES,
    CannotBuild,
    compile_libraries,
    find_compiler,
    identity_of,
)

__all__ = ["LIBRARY", "NAMED", "Built", "CannotBuild", "built_libraries"]

#: Where a wheel has them.
PREBUILT: Final = Path(__file__).parent / "built"
#: What separates paths in LD_PRELOAD, which has no way to quote; ``$`` begins ld.so's own names.
_UNFIT: Final = frozenset(" :;\t\n$")


@dataclass(frozen=True, slots=True)
class Built:
    """Libraries that can be used."""

    folder: Path

    @property
    def library(self) -> Path:
        """The library that answers for all others."""
        return self.folder / LIBRARY


def built_libraries(
    environment: Mapping[str, str],
    *,
    say: Callable[[str], None] | None = None,
    prebuilt: Path = PREBUILT,
) -> Built:
    """The libraries, from the wheel or the cache, or built now.

    ``say`` is given one line before a compiler is run. Raises ``CannotBuild``.
    """
    _check_machine()
    if _is_complete(prebuilt) and _is_fit(prebuilt) and _loads(prebuilt):
        return Built(prebuilt)
    compiler = find_compiler(environment)
    key = _key(compiler)
    reasons = []
    for folder in _folders(environment):
        try:
            return Built(_found_or_built(folder, key, compiler, say))
        except OSError as error:
            reasons.append(f"{folder}: {error.strerror or error}")
    raise CannotBuild(
        "there is no folder to keep the stand-in's libraries in ("
        + "; ".join(reasons)
        + "): set MEMBUDGET_CACHE_DIR to one with 2 MiB of room, whose path has no space, colon or semicolon"
    )


def _check_machine() -> None:
    if not sys.platform.startswith("linux"):
        raise CannotBuild("the stand-in for CUDA needs Linux")
    if platform.machine() not in MACHINES or sys.maxsize < 2**32:
        raise CannotBuild(f"the stand-in for CUDA needs x86-64 or aarch64, not {platform.machine()}")


def _is_complete(folder: Path) -> bool:
    return all((folder / name).is_file() for name in (LIBRARY, *NAMED))


def _is_fit(folder: Path) -> bool:
    """Whether LD_PRELOAD can name a file in ``folder``."""
    return not _UNFIT & set(str(folder))


def _loads(folder: Path) -> bool:
    """Whether this system's ld.so takes the library: a wheel may have been built for a newer glibc."""
    preloaded = {"LD_PRELOAD": str(folder / LIBRARY)}
    try:
        done = subprocess.run(["/bin/true"], env=preloaded, capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0 and not done.stderr


def _key(compiler: Sequence[str]) -> str:
    """Changes with all that the libraries are made of."""
    hashed = hashlib.sha256(repr((FLAGS, NAMED, platform.machine())).encode())
    hashed.update(identity_of(compiler))
    for path in sorted(SOURCES.glob("*.[ch]")):
        hashed.update(f"\n{path.name}\n".encode())
        hashed.update(path.read_bytes())
    return hashed.hexdigest()[:24]


def _folders(environment: Mapping[str, str]) -> list[Path]:
    """Where they may be kept: the cache, else a temporary folder of this user."""
    kept = cache_folder(environment) / "stand-in"
    temporary = Path(environment.get("TMPDIR") or tempfile.gettempdir())
    own = temporary / f"pytest-membudget-{os.getuid()}"
    return [folder for folder in (kept, own) if _is_fit(folder)]


def _found_or_built(
    folder: Path, key: str, compiler: Sequence[str], say: Callable[[str], None] | None
) -> Path:
    """The folder of the libraries in ``folder``. Raises ``OSError`` if they cannot be kept there."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _check_owner(folder)
    target = folder / key
    if not _is_complete(target):
        unfinished = Path(tempfile.mkdtemp(prefix=".building-", dir=folder))
        try:
            if say is not None:
                say(f"building the stand-in for CUDA with {compiler[0]}, once")
            compile_libraries(compiler, unfinished)
            _move(unfinished, target)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return target


def _check_owner(folder: Path) -> None:
    """What is preloaded runs as this user: nobody else may put it there."""
    status = folder.lstat()
    if folder.is_symlink() or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise PermissionError(1, "others can write there")


def _move(unfinished: Path, target: Path) -> None:
    """Put whole libraries in place; other processes may be doing the same."""
    if target.exists() and not _is_complete(target):
        shutil.rmtree(target, ignore_errors=True)  # what was cut short, by hand or by a failing disk
    with contextlib.suppress(OSError):
        os.rename(unfinished, target)  # fails where another process was first
    if not _is_complete(target):
        raise OSError(f"{target} could not be put in place")
