"""The stand-in's libraries: those of the wheel, or built once into a cache."""

import hashlib
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

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
from .keeping import is_fit, kept_folder

__all__ = ["LIBRARY", "NAMED", "CannotBuild", "built_libraries"]

#: Where a wheel has them.
PREBUILT: Final = Path(__file__).parent / "built"


def built_libraries(
    environment: Mapping[str, str],
    *,
    say: Callable[[str], None] | None = None,
    prebuilt: Path = PREBUILT,
) -> Path:
    """The folder of the libraries, from the wheel or the cache, or built now.

    ``say`` is given one line before a compiler is run. Raises ``CannotBuild``.
    """
    _check_machine()
    if _is_complete(prebuilt) and is_fit(prebuilt) and _loads(prebuilt):
        return prebuilt
    compiler = find_compiler(environment)

    def build(folder: Path) -> None:
        if say is not None:
            say(f"building the stand-in for CUDA with {compiler[0]}, once")
        compile_libraries(compiler, folder)

    return kept_folder(environment, _key(compiler), _is_complete, build)


def _check_machine() -> None:
    if not sys.platform.startswith("linux"):
        raise CannotBuild("the stand-in for CUDA needs Linux")
    if platform.machine() not in MACHINES or sys.maxsize < 2**32:
        raise CannotBuild(f"the stand-in for CUDA needs x86-64 or aarch64, not {platform.machine()}")


def _is_complete(folder: Path) -> bool:
    return all((folder / name).is_file() for name in (LIBRARY, *NAMED))


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
