"""Prepares a release, or builds it.

    python -m tox -e release -- 0.2.0    # set the version, move the changelog's entries under it, and build
    python -m tox -e release             # build into dist/, and check: an sdist, and a wheel for each machine

The wheels have the stand-in's libraries, compiled for the oldest glibc (that of manylinux2014) by zig.
"""

from __future__ import annotations

import datetime
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
MACHINES = ("x86_64", "aarch64")
GLIBC = "2.17"
_UNRELEASED = "## Unreleased\n"


def with_version(module: str, version: str) -> str:
    """The text of the package's ``__init__.py`` with ``version``."""
    if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", version):
        raise SystemExit(f"{version} is no version such as 0.2.0 or 0.2.0rc1")
    changed, count = re.subn(r'(?m)^__version__ = ".*"$', f'__version__ = "{version}"', module)
    if count != 1:
        raise SystemExit("the package has no line __version__")
    return changed


def with_release(changelog: str, version: str, day: datetime.date) -> str:
    """The changelog with its entries so far under ``version``."""
    before, found, after = changelog.partition(_UNRELEASED)
    entries = after.partition("\n## ")[0]
    if not found or not entries.strip():
        raise SystemExit("CHANGELOG.md has nothing under Unreleased")
    return f"{before}{_UNRELEASED}\n## {version} - {day.isoformat()}\n{after}"


def build() -> None:
    """Build and check all files of a release in ``DIST``."""
    shutil.rmtree(DIST, ignore_errors=True)
    _run("build", "--sdist")
    for machine in MACHINES:
        compiler = f"{sys.executable} -m ziglang cc -target {machine}-linux-gnu.{GLIBC}"
        _run("build", "--wheel", CC=compiler, WHEEL_MACHINE=machine)
    tags = sorted(path.name.rpartition("-")[2] for path in DIST.glob("*.whl"))
    expected = sorted(f"manylinux_{GLIBC.replace('.', '_')}_{machine}.whl" for machine in MACHINES)
    if tags != expected:
        raise SystemExit(f"dist/ has wheels for {tags}, and should have them for {expected}")
    _run("twine", "check", "--strict", *sorted(map(str, DIST.iterdir())))


def _run(module: str, *args: str, **variables: str) -> None:
    environment = {**os.environ, **variables}
    subprocess.run([sys.executable, "-m", module, *args], cwd=ROOT, env=environment, check=True)


def main(args: list[str]) -> None:
    """Prepare the release of the version in ``args``, if there is one, and build."""
    if args:
        [version] = args
        module, changelog = ROOT / "src/pytest_membudget/__init__.py", ROOT / "CHANGELOG.md"
        texts = {
            module: with_version(module.read_text(encoding="utf-8"), version),
            changelog: with_release(changelog.read_text(encoding="utf-8"), version, datetime.date.today()),
        }
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
    build()


if __name__ == "__main__":
    main(sys.argv[1:])
