"""The CUDA build of torch for workers, which ``membudget install-torch`` puts into the cache.

``<cache>/torch/2.13.0-cp311-x86_64/site-packages/`` has torch's wheel and cuDNN's, unpacked side by side.
Each folder in the ``with`` next to it has one more distribution. Environments share these, so one is used
where the environment has the same version of it: a worker imports what the environment can, and Triton,
which CUDA builds require.
"""

import csv
import importlib.metadata
import platform
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from ...cache.store import cache_folder
from ...errors import UsageMistake
from .build import TorchBuild, build_in, environments_torch, runs_here

#: A folder with a CUDA build of torch, as ``pip install --target`` lays it out; used in place of the cache's.
FOLDER_VARIABLE: Final = "MEMBUDGET_TORCH"
COMMAND: Final = "membudget install-torch"
#: The wheels of torch 2.13.0 for CUDA 13.0 (0.53 GB, 1.16 on disk) and of cuDNN 9.20 (0.37 GB, 0.49 on disk).
SIZES: Final = "0.9 GB download, 1.7 GB on disk"
TRITON: Final = "triton"
#: The name of folders of packages, by which tools know that what lies there is installed.
PACKAGES: Final = "site-packages"
#: As released wheels are numbered; "2.15.0.dev20251101" is a nightly build's, "2.15.0a0" one of sources.
_RELEASE: Final = re.compile(r"\d+(\.\d+)*(rc\d+)?(\.post\d+)?")


def workers_torch(environment: Mapping[str, str]) -> TorchBuild:
    """The CUDA build that workers import.

    It is the one that ``MEMBUDGET_TORCH`` names, else the environment's own, else the cache's.
    Raises ``UsageMistake``, with what to do, where there is none.
    """
    own = environments_torch()
    if own is not None and own.cuda is not None and not environment.get(FOLDER_VARIABLE):
        return own
    found = installed_for_worker(environment)
    if found is None:
        raise UsageMistake(no_cuda_build(own))
    return found


def estimates_torch(environment: Mapping[str, str]) -> TorchBuild | None:
    """The torch that figures are made with; the environment's own where nothing can be estimated."""
    try:
        return workers_torch(environment)
    except UsageMistake:
        return environments_torch()


def no_cuda_build(own: TorchBuild | None) -> str:
    """Why a session of an environment with this torch cannot estimate, and what to do."""
    if own is None:
        return "torch is not installed"
    return not_published(own) or (
        f"torch {own.version} has no CUDA code: run `{COMMAND}` once ({SIZES}); "
        "pytest itself downloads nothing"
    )


def not_published(own: TorchBuild) -> str:
    """Why no index has the CUDA build of this torch for this machine, and what to do; empty if one may."""
    has_glibc = "musl" not in (sysconfig.get_config_var("HOST_GNU_TYPE") or "")
    if not (sys.platform.startswith("linux") and has_glibc):
        return f"torch {own.version} has no CUDA code, and its CUDA build runs on Linux with glibc alone"
    if own.hip is not None:
        kind = "a build for ROCm, and estimates need one for CUDA"
    elif _RELEASE.fullmatch(own.public_version):
        return ""
    elif ".dev" in own.public_version:
        kind = "a nightly build without CUDA, and PyPI has releases alone"
    else:
        kind = "built from sources without CUDA, and no index has another build"
    way_out = f"give a wheel, `{COMMAND} --from FILE.whl`, or a folder in {FOLDER_VARIABLE}"
    return f"torch {own.version} is {kind}: {way_out}"


def installed_for_worker(environment: Mapping[str, str]) -> TorchBuild | None:
    """The CUDA build in the folder that ``MEMBUDGET_TORCH`` names, else in the cache; None if there is none.

    Raises ``UsageMistake`` where there is one that this environment cannot use.
    """
    own = environments_torch()
    if own is None:
        return None
    named = environment.get(FOLDER_VARIABLE)
    folder = Path(named).absolute() if named else folder_for(own, environment) / PACKAGES
    if not named and not folder.exists():
        return None
    found = build_in(folder)
    reason = "there is no torch in it" if found is None else why_not(found, own)
    if reason:
        start = f"{FOLDER_VARIABLE}={named}" if named else f"{folder}"
        way_out = "name another folder" if named else f"run `{COMMAND}` again"
        raise UsageMistake(f"{start}: {reason}; {way_out}")
    assert found is not None
    return replace(found, extensions=tuple(_extensions(folder)))


def folder_for(own: TorchBuild, environment: Mapping[str, str]) -> Path:
    """The cache's folder for an environment with this torch, this Python and this machine."""
    python = f"cp{_python().replace('.', '')}"
    return cache_folder(environment) / "torch" / f"{own.public_version}-{python}-{platform.machine()}"


def _python() -> str:
    """ "3.13", or "3.13t" without the GIL: its compiled modules are others."""
    return f"{sys.version_info.major}.{sys.version_info.minor}{getattr(sys, 'abiflags', '')}"


def extension_folder(folder: Path, name: str, version: str) -> Path:
    """Where a distribution goes that was built for the torch of ``folder``, one of ``folder_for``."""
    return folder / "with" / f"{name}-{version}"


def _extensions(folder: Path) -> Iterator[Path]:
    for found in sorted(folder.parent.glob(f"with/*-*/{PACKAGES}")):
        name, _, version = found.parent.name.rpartition("-")
        if name == TRITON or environments_version(name) == version:
            yield found


def environments_version(name: str) -> str | None:
    """The public version of a distribution that the environment has; None if it has not."""
    try:
        return importlib.metadata.version(name).partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return None


def cpu_builds() -> dict[str, str]:
    """Names and public versions of what the environment has besides torch as a CPU build, as torchvision."""
    found = {one.name.lower(): one.version for one in importlib.metadata.distributions()}
    return {
        name: version.partition("+")[0]
        for name, version in sorted(found.items())
        if version.endswith("+cpu") and name != "torch"
    }


def why_not(found: TorchBuild, own: TorchBuild) -> str:
    """Why a worker of this environment cannot import ``found``; empty if it can."""
    if found.cuda is None:
        return f"torch {found.version} is a build without CUDA"
    if found.public_version != own.public_version:
        return (
            f"it has torch {found.version}, and this environment torch {own.version}: versions must be equal"
        )
    if not runs_here(found):
        return f"its torch {found.version} is for another Python than {_python()}, or another machine"
    return next((f"{path} is missing or cut short" for path in _damaged(found.folder)), "")


def _damaged(folder: Path) -> Iterator[str]:
    """Compiled libraries that are not as the installer has recorded them."""
    for record in folder.glob("torch-*.dist-info/RECORD"):
        with record.open(encoding="utf-8", newline="") as file:
            for path, _, size in csv.reader(file):
                if ".so" in path and size and not _has_size(folder / path, int(size)):
                    yield path


def _has_size(path: Path, size_bytes: int) -> bool:
    try:
        return path.stat().st_size == size_bytes
    except OSError:
        return False
