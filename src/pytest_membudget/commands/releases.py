"""The releases of a package between two, and environments with one of them."""

import re
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from packaging.version import InvalidVersion, Version

from ..comparison.base.sources import PREFIX
from ..errors import UsageMistake
from ..external_commands import run_command

#: As pip takes it: a name, ``==`` and a version.
_PINNED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s=]+)")
_AVAILABLE = "Available versions: "


def releases_between(good: str, bad: str) -> list[str]:
    """The releases from ``good`` to ``bad``, each ``package==version``; ``bad`` may be the older one.

    They are those that pip finds for this interpreter. Raises ``UsageMistake``.
    """
    first, last = _PINNED.fullmatch(good), _PINNED.fullmatch(bad)
    if first is None or last is None or first[1].lower() != last[1].lower():
        raise UsageMistake(
            f"{good} {bad}: write two releases of one package, as in torch==2.12.0 torch==2.13.0"
        )
    package, ends = first[1], [_version(first), _version(last)]
    pre = ["--pre"] if any(end.is_prerelease for end in ends) else []
    done = _pip("index", "versions", *pre, package)
    listed = [line for line in done.stdout.splitlines() if line.startswith(_AVAILABLE)]
    if not listed:
        raise UsageMistake(f"{package}: pip finds no releases: {_last_line(done)}")
    found = {Version(text) for text in listed[0].removeprefix(_AVAILABLE).split(", ")}
    for end in ends:
        if end not in found:
            raise UsageMistake(f"{package}=={end}: there is no such release for this Python")
    between = sorted(version for version in found if min(ends) <= version <= max(ends))
    versions = between if ends[0] <= ends[1] else between[::-1]
    return [f"{package}=={version}" for version in versions]


def _version(match: re.Match[str]) -> Version:
    try:
        return Version(match[2])
    except InvalidVersion:
        raise UsageMistake(f"{match[0]}: {match[2]} is no version; write one such as 4.48.0") from None


@contextmanager
def installed(requirement: str) -> Iterator[str]:
    """The ``--membudget-compare`` of a virtual environment over this one, with ``requirement``."""
    with tempfile.TemporaryDirectory(prefix="membudget-release-") as folder:
        python = _environment_over_this_one(Path(folder))
        done = _pip("--python", str(python), "install", "--quiet", requirement)
        if done.returncode:
            raise OSError(f"pip install {requirement} failed: {_last_line(done)}")
        yield f"{PREFIX}{python}"


def _environment_over_this_one(folder: Path) -> Path:
    """The interpreter of a new virtual environment that also sees what is installed in this one."""
    venv.create(folder, symlinks=True)
    own = {sysconfig.get_paths()[name] for name in ("purelib", "platlib")}
    [packages] = folder.glob("lib/python*/site-packages")
    # a .pth file in these folders is read too, which a mere path would not do
    lines = [f"import site; site.addsitedir({path!r})\n" for path in sorted(own)]
    (packages / "membudget_over.pth").write_text("".join(lines), encoding="utf-8")
    return folder / "bin" / "python"


def _pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command([sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments])


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = done.stderr.splitlines()
    errors = [line for line in lines if line.startswith("ERROR")] or lines
    return errors[-1] if errors else f"exit status {done.returncode}"
