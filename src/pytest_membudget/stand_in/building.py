"""The stand-in's libraries: those of the wheel, or built once by the system's C compiler into a cache."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..cache.store import cache_folder

LIBRARY: Final = "libmembudget_stand_in.so"
#: Libraries that others open by these names; each only refers to ``LIBRARY``.
NAMED: Final = ("libcuda.so.1", "libnvidia-ml.so.1")
SOURCES: Final = Path(__file__).parent / "native"
#: Where a wheel has them.
PREBUILT: Final = Path(__file__).parent / "built"
_MACHINES: Final = ("x86_64", "aarch64")
_COMPILERS: Final = ("cc", "gcc", "clang")
_FLAGS: Final = ("-std=gnu11", "-O2", "-fPIC", "-fvisibility=hidden", "-Wno-unused-parameter")
_TIMEOUT_S: Final = 300
#: What separates paths in LD_PRELOAD and LD_LIBRARY_PATH.
_SEPARATORS: Final = frozenset(" :;\t\n")


@dataclass(frozen=True, slots=True)
class Built:
    """Libraries that can be used."""

    folder: Path

    @property
    def library(self) -> Path:
        """The library that answers for all others."""
        return self.folder / LIBRARY


class CannotBuild(Exception):
    """Why there are no libraries, and what to do: a text for the user."""


def built_libraries(
    environment: Mapping[str, str], *, say: Callable[[str], None] | None = None
) -> Built:
    """The libraries, from the wheel or the cache, or built now.

    ``say`` is given one line before a compiler is run. Raises ``CannotBuild``.
    """
    _check_machine()
    if _is_complete(PREBUILT) and _can_be_preloaded(PREBUILT):
        return Built(PREBUILT)
    compiler = _compiler(environment)
    key = _key(compiler)
    reasons = []
    for folder in _folders(environment):
        target = folder / key
        if _is_complete(target):
            return Built(target)
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if say is not None:
                say(f"building the stand-in for CUDA with {compiler[0]} (once)")
            _build_into(target, compiler)
        except OSError as error:
            reasons.append(f"{folder}: {error.strerror or error}")
            continue
        return Built(target)
    raise CannotBuild("no folder for the stand-in's libraries can be written: " + "; ".join(reasons))


def compile_libraries(compiler: Sequence[str], folder: Path, *, flags: Sequence[str] = ()) -> None:
    """Compile all libraries into ``folder``. Raises ``CannotBuild``, or ``OSError`` without room."""
    sources = sorted(str(path) for path in SOURCES.glob("*.c"))
    _run([*compiler, *_FLAGS, *flags, "-shared", "-o", str(folder / LIBRARY), *sources, "-lpthread", "-ldl"])
    for name in NAMED:
        _run(
            [*compiler, "-shared", "-fPIC", "-o", str(folder / name), f"-Wl,-soname,{name}", "-Wl,--no-as-needed"]
            + ["-Wl,-rpath,$ORIGIN", "-x", "c", os.devnull, "-x", "none", f"-L{folder}", f"-l:{LIBRARY}"]
        )


def _check_machine() -> None:
    if not sys.platform.startswith("linux"):
        raise CannotBuild("the stand-in for CUDA needs Linux")
    if platform.machine() not in _MACHINES or sys.maxsize < 2**32:
        raise CannotBuild(f"the stand-in for CUDA needs x86-64 or aarch64, not {platform.machine()}")


def _is_complete(folder: Path) -> bool:
    return all((folder / name).is_file() for name in (LIBRARY, *NAMED))


def _can_be_preloaded(folder: Path) -> bool:
    """Whether LD_PRELOAD can name a file in ``folder``: it has no way to quote."""
    return not _SEPARATORS & set(str(folder))


def _compiler(environment: Mapping[str, str]) -> list[str]:
    path = environment.get("PATH")
    named = shlex.split(environment.get("CC", ""))
    if named and shutil.which(named[0], path=path):
        return named
    for name in _COMPILERS:
        if found := shutil.which(name, path=path):
            return [found]
    raise CannotBuild("there is no C compiler: install gcc or clang, or name one in the variable CC")


def _key(compiler: Sequence[str]) -> str:
    """Changes with all that the libraries are made of."""
    hashed = hashlib.sha256(repr((_FLAGS, NAMED, platform.machine(), list(compiler))).encode())
    try:
        asked = subprocess.run([*compiler, "--version"], capture_output=True, timeout=_TIMEOUT_S, check=False)
        hashed.update(asked.stdout)
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotBuild(f"the C compiler {compiler[0]} does not run: {error}") from None
    for path in sorted(SOURCES.glob("*.[ch]")):
        hashed.update(f"\n{path.name}\n".encode())
        hashed.update(path.read_bytes())
    return hashed.hexdigest()[:24]


def _folders(environment: Mapping[str, str]) -> list[Path]:
    """Where they may be kept, the first that can be written: the cache, else a temporary folder of this user."""
    kept = cache_folder(environment) / "stand-in"
    own = Path(environment.get("TMPDIR") or tempfile.gettempdir()) / f"pytest-membudget-{os.getuid()}"
    folders = [folder for folder in (kept, own) if _can_be_preloaded(folder)]
    if own in folders and not _is_ours(own):
        folders.remove(own)
    return folders


def _is_ours(folder: Path) -> bool:
    """Whether nobody else can have put libraries there, or put them there later."""
    try:
        status = os.lstat(folder)
    except OSError:
        return True
    return folder.is_dir() and not folder.is_symlink() and status.st_uid == os.getuid() and not status.st_mode & 0o022


def _build_into(target: Path, compiler: Sequence[str]) -> None:
    """Build beside ``target`` and move it there whole: other processes may do the same."""
    unfinished = Path(tempfile.mkdtemp(prefix=".building-", dir=target.parent))
    try:
        compile_libraries(compiler, unfinished)
        with contextlib.suppress(OSError):  # another process was first
            os.rename(unfinished, target)
        if not _is_complete(target):
            raise OSError(f"{target} is not complete")
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotBuild(f"the C compiler {command[0]} does not run: {error}") from None
    if done.returncode == 0:
        return
    if "No space left on device" in done.stderr:
        raise OSError(28, "No space left on device")
    raise CannotBuild(f"the C compiler {command[0]} cannot build the stand-in: {done.stderr.strip()[-2000:]}")
