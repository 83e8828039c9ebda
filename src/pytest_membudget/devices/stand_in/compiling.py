"""Compiling the stand-in's libraries from their C sources; also loaded, by itself, where a wheel is built."""

import errno
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

LIBRARY: Final = "libmembudget_stand_in.so"
#: Libraries that others open by these names; each only refers to ``LIBRARY``.
NAMED: Final = ("libcuda.so.1", "libnvidia-ml.so.1")
SOURCES: Final = Path(__file__).parent / "native"
MACHINES: Final = ("x86_64", "aarch64")
#: Hardly optimised: the libraries only keep books, and building them is what a first session waits for.
FLAGS: Final = ("-std=gnu11", "-O1", "-fPIC", "-fvisibility=hidden", "-Wno-unused-parameter")
_COMPILERS: Final = ("cc", "gcc", "clang")
_TIMEOUT_S: Final = 300


class CannotBuild(Exception):  # noqa: N818 - it says what is, not what went wrong
    """Why there are no libraries, and what to do: a text for the user."""


def find_compiler(environment: Mapping[str, str]) -> list[str]:
    """The C compiler, as the start of a command: what ``CC`` names, else the system's."""
    path = environment.get("PATH")
    named = shlex.split(environment.get("CC", ""))
    if named and shutil.which(named[0], path=path):
        return named
    for name in _COMPILERS:
        if found := shutil.which(name, path=path):
            return [found]
    raise CannotBuild("there is no C compiler: install gcc or clang, or name one in the variable CC")


def identity_of(compiler: Sequence[str]) -> bytes:
    """What identifies a compiler: its name and version."""
    return repr(list(compiler)).encode() + run_compiler([*compiler, "--version"]).encode()


def compile_libraries(compiler: Sequence[str], folder: Path, *, flags: Sequence[str] = ()) -> None:
    """Compile all libraries into ``folder``. Raises ``CannotBuild``, or ``OSError`` without room."""
    sources = sorted(str(path) for path in SOURCES.glob("*.c"))
    shared = [*compiler, *FLAGS, *flags, "-shared"]
    library = folder / LIBRARY
    named = f"-Wl,-soname,{LIBRARY}"
    run_compiler([*shared, "-o", str(library), named, *sources, "-lpthread", "-ldl", "-lm"])
    empty = folder / "empty.c"
    empty.write_text("typedef int nothing;\n", encoding="utf-8")
    for name in NAMED:
        refers = ["-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN", str(library)]
        run_compiler([*shared, "-o", str(folder / name), f"-Wl,-soname,{name}", str(empty), *refers])
    empty.unlink()


def run_compiler(command: Sequence[str]) -> str:
    """What the command prints. Raises as ``compile_libraries``."""
    english = {**os.environ, "LC_ALL": "C"}  # to know the system's error again
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, env=english
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotBuild(f"the C compiler {command[0]} does not run: {error}") from None
    if done.returncode == 0:
        return done.stdout
    full = os.strerror(errno.ENOSPC)
    if full in done.stderr:
        raise OSError(errno.ENOSPC, full)
    raise CannotBuild(f"the C compiler {command[0]} cannot build the stand-in: {done.stderr.strip()[-2000:]}")
