"""The environment's own installer, pip or uv, with its settings of indexes, proxies and hashes."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageMistake

#: What holds for the environment alone: constraints may ask for the CPU build.
_FOR_THE_ENVIRONMENT = {"PIP_CONSTRAINT", "UV_CONSTRAINT", "UV_OVERRIDE", "UV_TORCH_BACKEND"}
_LINKS = {"PIP_FIND_LINKS", "UV_FIND_LINKS"}
_SETTINGS = {
    "PIP_USER": "0",  # pip refuses it with --target
    "PIP_REQUIRE_VIRTUALENV": "0",
    "PIP_ROOT_USER_ACTION": "ignore",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}


@dataclass(frozen=True, slots=True)
class Installer:
    """pip or uv, which puts one wheel into a folder."""

    name: str
    command: tuple[str, ...]

    def install(
        self, what: str, target: Path, environment: Mapping[str, str], wheels: Sequence[Path] = ()
    ) -> None:
        """Unpack the requirement ``what`` into ``target``; it prints its progress.

        ``wheels``: the only ones to choose from; without any, the index is asked. Raises ``UsageMistake`` if
        it fails.
        """
        target.mkdir(parents=True, exist_ok=True)
        left_out = _FOR_THE_ENVIRONMENT | (_LINKS if wheels else set())
        kept = {name: value for name, value in environment.items() if name not in left_out}
        options = ["--no-deps", "--only-binary", ":all:", "--target", str(target)]
        # in the same file system: pip moves what it has unpacked
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            for wheel in wheels:
                Path(scratch, wheel.name).symlink_to(wheel.absolute())
            done = subprocess.run(
                [*self.command, *options, *(["--no-index", "--find-links", scratch] if wheels else []), what],
                env={**kept, **_SETTINGS, "TMPDIR": scratch},
                check=False,
            )
        if done.returncode != 0:
            raise UsageMistake(
                f"{self.name} could not install {what} (exit status {done.returncode}): "
                "its message is above, and nothing was kept"
            )


def find_installer(environment: Mapping[str, str]) -> Installer:
    """uv where it made the environment, else pip, else uv. Raises ``UsageMistake`` without either."""
    path = os.pathsep.join([environment.get("PATH", ""), sysconfig.get_path("scripts")])
    uv = environment.get("UV") or shutil.which("uv", path=path)
    if importlib.util.find_spec("pip") is not None and not (uv and _made_by_uv()):
        return Installer("pip", (sys.executable, "-m", "pip", "install", "--no-compile"))
    if uv:
        return Installer("uv", (uv, "pip", "install", "--python", sys.executable))
    raise UsageMistake(
        f"{sys.prefix} has no pip, and there is no uv: run `{sys.executable} -m ensurepip`, or install uv"
    )


def compiling(folder: Path) -> subprocess.Popen[bytes]:
    """Writes the bytecode of what was installed: by all processors, while something else is downloaded."""
    command = [sys.executable, "-m", "compileall", "-q", "-j", "0", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _made_by_uv() -> bool:
    try:
        text = Path(sys.prefix, "pyvenv.cfg").read_text(encoding="utf-8")
    except OSError:
        return False
    return re.search(r"^uv\s*=", text, re.MULTILINE) is not None
