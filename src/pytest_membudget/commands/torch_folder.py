"""Fills the cache's folder with a CUDA build of torch: it is complete whenever it is there."""

import contextlib
import shutil
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
from .installers import Installer, compiling

#: torch 2.13.0 unpacked (1.16 GB), and cuDNN 9.20 both packed (0.37) and unpacked (0.49).
NEEDED_BYTES: Final = 2_100_000_000
_CUDNN: Final = "nvidia-cudnn-"


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

    def _locked(self) -> contextlib.AbstractContextManager[object]:
        lock = FileLock(self.folder.with_name(f".{self.folder.name}.lock"))
        try:
            return lock.acquire(timeout=0)
        except Timeout:
            self.say(f"another process is installing into {self.folder}: waiting for it")
            return lock.acquire()

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
