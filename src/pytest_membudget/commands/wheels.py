"""Wheels in files, for machines without an index: which of them meets a requirement here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.tags import sys_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from ..errors import UsageMistake


def wheels_among(paths: Sequence[Path]) -> list[Path]:
    """The files, and the wheels in the folders. Raises ``UsageMistake`` where one has none."""
    found: list[Path] = []
    for path in paths:
        wheels = sorted(path.glob("*.whl")) if path.is_dir() else [path] if path.is_file() else []
        if not wheels:
            raise UsageMistake(f"--from {path}: there is no wheel (a file, or a folder with *.whl)")
        found += wheels
    return found


def text_of(requirement: Requirement) -> str:
    """``requirement`` without its marker, ``==`` before ``!=``."""
    return requirement.name + ",".join(sorted(map(str, requirement.specifier), reverse=True))


def wheel_for(requirement: Requirement, wheels: Sequence[Path]) -> Path:
    """The wheel that meets ``requirement`` for this Python and machine.

    Raises ``UsageMistake`` where there is none, with what is wrong with each wheel of that name.
    """
    reasons = []
    for path, reason in _judged(requirement, wheels):
        if not reason:
            return path.absolute()
        reasons.append(f"{path.name} is {reason}")
    found = ", ".join(reasons) or "there is none of that name"
    raise UsageMistake(f"--from has no wheel for {text_of(requirement)}: {found}")


def _judged(requirement: Requirement, wheels: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    here = set(sys_tags())
    for path in wheels:
        try:
            name, version, _, tags = parse_wheel_filename(path.name)
        except InvalidWheelFilename as error:
            raise UsageMistake(f"--from {path}: {error}") from None
        if name != canonicalize_name(requirement.name):
            continue
        if version.local == "cpu":
            yield path, "a build without CUDA"
        elif not requirement.specifier.contains(version, prereleases=True):
            yield path, "another version"
        else:
            yield path, "" if tags & here else "for another Python or machine"
