"""Fills the cache's folder with a CUDA build of torch, by the environment's own installer, pip or uv.

The folder is complete whenever it is there. The installer has its settings of indexes, proxies and hashes.
"""

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ..devices.torch_build.build import TorchBuild, build_in
from ..devices.torch_build.installed import (
    PACKAGES,
    SIZES,
    TRITON,
    environments_version,
    extension_folder,
    installed_for_worker,
    why_not,
)
from ..errors import UsageMistake
from ..units import gb_text

#: torch 2.13.0 unpacked (1.16 GB), and cuDNN 9.20 both packed (0.37) and unpacked (0.49).
NEEDED_BYTES: Final = 2_100_000_000
_CUDNN: Final = "nvidia-cudnn-"
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


@dataclass(frozen=True, slots=True)
class TorchFolder:
    """The folder of workers for an environment with the torch ``own``, and how wheels come into it."""

    folder: Path
    own: TorchBuild
    installer: Installer
    environment: Mapping[str, str]
    wheels: Sequence[Path] = ()
    """The only wheels to take; without any, the index is asked."""
    say: Callable[[str], None] = print

    def fill(self, extensions: Sequence[str]) -> None:
        """Install torch and cuDNN, then ``extensions``; what is there is left as it is.

        Raises ``UsageMistake`` for what the user can change, and ``OSError``.
        """
        names = [canonicalize_name(name) for name in extensions]
        wanted = {name: None if name == TRITON else _version_of(name) for name in names}
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with self._locked():
            if not self._is_usable():
                self._install_torch()
            for name, version in wanted.items():
                self._add(name, version)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        lock = FileLock(self.folder.with_name(f".{self.folder.name}.lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            self.say(f"another process is installing into {self.folder}: waiting for it")
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def _is_usable(self) -> bool:
        """Whether a worker can import the folder's torch."""
        try:
            return installed_for_worker(self.environment) is not None
        except UsageMistake as error:
            self.say(f"{str(error).partition(';')[0]}: installing it again")
            return False

    @contextlib.contextmanager
    def _staged(self) -> Iterator[Path]:
        """A folder to install into, in the same file system; deleted if it is not moved away."""
        staging = self.folder.with_name(f".installing-{self.folder.name}")
        shutil.rmtree(staging, ignore_errors=True)  # of a process that was killed
        try:
            yield staging / PACKAGES
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def _install_torch(self) -> None:
        free_bytes = shutil.disk_usage(self.folder.parent).free
        if free_bytes < NEEDED_BYTES:
            raise UsageMistake(
                f"{self.folder.parent} needs {gb_text(NEEDED_BYTES)} free and has {gb_text(free_bytes)}: "
                "free some, or name another folder in MEMBUDGET_CACHE_DIR"
            )
        sizes = "" if self.wheels else f" ({SIZES})"
        self.say(f"installing torch {self.own.public_version} for CUDA and cuDNN{sizes} into {self.folder}")
        with self._staged() as target:
            self._get(_exactly("torch", self.own.public_version), target)
            found = build_in(target)
            reason = "there is no torch in it" if found is None else why_not(found, self.own)
            if reason:
                raise UsageMistake(f"the wheel of torch cannot be used: {reason}")
            cudnn = _required(target, _CUDNN)
            with compiling(target):
                if cudnn is not None:
                    self._get(cudnn, target)
            shutil.rmtree(self.folder, ignore_errors=True)  # what is damaged, or of another layout
            target.parent.rename(self.folder)

    def _add(self, name: str, version: str | None) -> None:
        """Install ``name`` into a separate folder, in the version that torch requires if None is given."""
        if any(self.folder.glob(f"with/{name}-{version or '*'}")):
            return
        requirement = _exactly(name, version) if version else _required(self.folder / PACKAGES, name)
        if requirement is None:
            raise UsageMistake(f"--with {name}: torch {self.own.public_version} requires none here")
        with self._staged() as target:
            self._get(requirement, target)
            compiling(target).wait()
            installed = _distribution(name, target).version.partition("+")[0]
            place = extension_folder(self.folder, name, installed)
            place.parent.mkdir(exist_ok=True)
            target.parent.rename(place)

    def _get(self, requirement: Requirement, target: Path) -> None:
        what = requirement.name + ",".join(sorted(map(str, requirement.specifier), reverse=True))  # == first
        self.installer.install(what, target, self.environment, self.wheels)


def _exactly(name: str, version: str) -> Requirement:
    """This public version of ``name``, not as a CPU build: PyTorch's indexes name those ``+cpu``."""
    return Requirement(f"{name}=={version},!={version}+cpu")


def _version_of(name: str) -> str:
    version = environments_version(name)
    if version is None or name == "torch":
        raise UsageMistake(
            f"--with {name}: write {TRITON}, or a distribution of this environment besides torch"
        )
    return version


def _required(folder: Path, name: str) -> Requirement | None:
    """What the torch in ``folder`` requires, on this platform, whose name starts with ``name``."""
    for text in _distribution("torch", folder).requires or ():
        found = Requirement(text)
        if found.name.startswith(name) and (found.marker is None or found.marker.evaluate()):
            return found
    return None


def _distribution(name: str, folder: Path) -> Distribution:
    return next(iter(distributions(name=name, path=[str(folder)])))


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
