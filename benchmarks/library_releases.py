"""What upgrades of a library change: the same steps run with one release after another, each compared.

    python -m benchmarks.library_releases transformers 4.44.2 4.45.2 4.46.3 --with huggingface_hub==0.36.0

Installs each release without its dependencies, but for those of ``--with``, in ``build/releases``, and
estimates the steps with it; a release whose report lies there is not run again. ``membudget compare`` then
prints how each figure differs from that of the release before, and why.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[1]
_STEPS = _ROOT / "benchmarks" / "cases" / "releases"


def main(arguments: list[str] | None = None) -> int:
    """Compare the releases that the command line names; the highest exit status of the sessions."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("library", choices=sorted(path.stem.partition("_")[0] for path in _steps()))
    parser.add_argument("versions", nargs="+")
    parser.add_argument("--with", dest="others", action="append", default=[], metavar="NAME==VERSION")
    parser.add_argument("--to", type=Path, default=_ROOT / "build" / "releases")
    given = parser.parse_args(arguments)
    statuses, previous = [0], None
    for version in given.versions:
        folder = given.to / f"{given.library}-{version}"
        install(folder / "site-packages", [f"{given.library}=={version}", *given.others])
        print(f"{given.library} {version}", flush=True)
        if not (folder / "report.json").exists():
            statuses.append(session(given.library, folder))
        if previous is not None:
            _run("pytest_membudget", "compare", str(previous), str(folder / "report.json"))
        previous = folder / "report.json"
    return max(statuses)


def install(folder: Path, requirements: list[str]) -> None:
    """Install ``requirements`` and nothing else in ``folder``, unless it is there."""
    if not folder.exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
        subprocess.run([*command, *requirements], check=True)


def session(library: str, folder: Path) -> int:
    """Estimate the library's steps with the release in ``folder``; the exit status.

    The report lies there when the session has ended, and not where it was interrupted.
    """
    # old releases log what pytest's handler cannot format, and warn much
    arguments = ["-q", "-W", "ignore", "-p", "no:logging", str(_STEPS / f"{library}_steps.py"), "--membudget"]
    path = os.pathsep.join([str(folder / "site-packages"), *filter(None, [os.environ.get("PYTHONPATH")])])
    unfinished = folder / "unfinished"
    status = _run("pytest", *arguments, f"--membudget-report={unfinished}", PYTHONPATH=path)
    if status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        (unfinished / "report.json").rename(folder / "report.json")
    return status


def _run(module: str, *arguments: str, **environment: str) -> int:
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=_STEPS, env={**os.environ, **environment}, check=False).returncode


def _steps() -> list[Path]:
    return list(_STEPS.glob("*_steps.py"))


if __name__ == "__main__":
    sys.exit(main())
