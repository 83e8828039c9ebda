"""Where ld.so would find the libraries of NVIDIA's that torch needs, if they are installed."""

import re
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

#: A line of ldconfig's cache: soname, what it is for, path.
_CACHED: Final = re.compile(r"^\s*(\S+) \(.*\) => (/.*)$", re.MULTILINE)


def folders_of(search_path: Iterable[str], origin: Path, environment: Mapping[str, str]) -> tuple[Path, ...]:
    """The folders that a library in ``origin`` with this search path looks in."""
    own = [path.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", str(origin)) for path in search_path]
    named = environment.get("LD_LIBRARY_PATH", "").split(":")
    return tuple(Path(path) for path in [*own, *named] if path)


def find_installed(sonames: Iterable[str], folders: Iterable[Path]) -> dict[str, Path]:
    """The file of each of ``sonames`` that is installed, in ``folders`` or where ldconfig knows it."""
    places, found = tuple(folders), {}
    for soname in sonames:
        own = next((folder / soname for folder in places if (folder / soname).is_file()), None)
        path = own.resolve() if own is not None else _ldconfig_cache().get(soname)
        if path is not None:
            found[soname] = path
    return found


@cache
def _ldconfig_cache() -> dict[str, Path]:
    for command in ("/sbin/ldconfig", "/usr/sbin/ldconfig", "ldconfig"):
        try:
            done = subprocess.run([command, "-p"], capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.SubprocessError):
            continue
        return {soname: Path(path) for soname, path in _CACHED.findall(done.stdout)}
    return {}
