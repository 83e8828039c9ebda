"""``membudget install-torch``: a CUDA build of torch for workers, where the environment has another."""

import argparse
import os
import time
from pathlib import Path

from ..devices.torch_build.build import TorchBuild, environments_torch
from ..devices.torch_build.installed import (
    COMMAND,
    FOLDER_VARIABLE,
    cpu_builds,
    folder_for,
    not_published,
    workers_torch,
)
from ..errors import UsageMistake
from ..units import gb_text
from .installers import find_installer
from .terminal import Subcommands, print_lines


def add_to(commands: Subcommands) -> None:
    """Add the subcommand ``install-torch``."""
    parser = commands.add_parser(
        "install-torch",
        help="install a CUDA build of torch that workers alone import",
        description="Install the CUDA build of the environment's torch, and cuDNN, into the cache: workers "
        "import it, and the environment stays as it is. Needed once where the environment has a CPU build.",
    )
    parser.set_defaults(run=_run)
    parser.add_argument(
        "--with",
        dest="extensions",
        metavar="NAME",
        action="append",
        help="also install triton, for torch.compile, or the CUDA build of what else this environment has",
    )
    parser.add_argument(
        "--from",
        dest="wheels",
        metavar="WHEEL",
        type=Path,
        action="append",
        help="take this wheel, or those in this folder, and ask no index",
    )
    parser.add_argument("--print-folder", action="store_true", help="print the folder, and install nothing")


def _run(options: argparse.Namespace) -> int:
    own = environments_torch()
    if own is None:
        raise UsageMistake(
            "this environment has no torch: install it first, as its CPU build or a CUDA build"
        )
    named = os.environ.get(FOLDER_VARIABLE)
    if named and options.extensions:
        raise UsageMistake(f"{FOLDER_VARIABLE}={named} is used: install there by `pip install --target`")
    if own.cuda is not None or named:
        found = workers_torch(os.environ)
        if not options.print_folder:
            print_lines([f"workers import torch {found.version} from {found.folder}: nothing to install"])
        return 0
    folder = folder_for(own, os.environ)
    if options.print_folder:
        print(folder)
        return 0
    reason = not_published(own)
    if reason and not options.wheels:
        raise UsageMistake(reason)
    try:
        _install(folder, own, options)
    except OSError as error:
        raise UsageMistake(
            f"{folder}: {error.strerror or error}; MEMBUDGET_CACHE_DIR names another"
        ) from None
    return 0


def _install(folder: Path, own: TorchBuild, options: argparse.Namespace) -> None:
    from .torch_folder import TorchFolder  # packaging is no dependency of the other commands

    started = time.monotonic()
    wheels = [wheel for path in options.wheels or () for wheel in _wheels_in(path)]
    place = TorchFolder(folder, own, find_installer(os.environ), os.environ, wheels, _say)
    place.fill(options.extensions or ())
    found = workers_torch(os.environ)
    size_bytes = sum(path.lstat().st_size for path in folder.rglob("*"))
    _say(
        f"workers import torch {found.version} from {folder}: {gb_text(size_bytes)}, "
        f"{time.monotonic() - started:.0f} s"
    )
    for path in found.extensions:
        _say(f"and {path.parent.name}")
    used = {path.parent.name for path in found.extensions}
    for name, version in cpu_builds().items():
        if f"{name}-{version}" not in used:
            _say(f"{name} {version} is a CPU build: if tests import it, run `{COMMAND} --with {name}`")


def _wheels_in(path: Path) -> list[Path]:
    """``path``, or the wheels of a folder. Raises ``UsageMistake`` where there is none."""
    found = sorted(path.glob("*.whl")) if path.is_dir() else [path] if path.is_file() else []
    if not found:
        raise UsageMistake(f"--from {path}: there is no wheel (a file, or a folder with *.whl)")
    return found


def _say(line: str) -> None:
    print_lines([line])
