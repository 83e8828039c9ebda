"""What git knows of the tests: the commit, whether files differ from it, and which of them it has."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

#: Paths that git is asked for: its command line has a limit.
_MOST_PATHS = 1000


def git_facts(root: Path, paths: Iterable[str] = ()) -> dict[str, Any]:
    """The commit that ``root`` is at, and whether tracked files differ; None where git does not know.

    Not those that git does not know: reports and caches would make every second run dirty. ``files``: of
    ``paths``, relative to ``root``, those that are as in the commit, with their paths in the repository.
    """
    head = _git(root, "rev-parse", "HEAD")
    status = _git(root, "status", "--porcelain", "--untracked-files=no")
    return {
        "head": head or None,
        "base": None,
        "dirty": bool(status) if status is not None else None,
        "files": _committed(root, sorted({*paths})[:_MOST_PATHS]) if head else {},
    }


def _committed(root: Path, paths: list[str]) -> dict[str, str]:
    inside = [path for path in paths if path and not path.startswith("/")]
    if not inside:
        return {}
    folder = _git(root, "rev-parse", "--show-prefix")
    tracked = _git(root, "--literal-pathspecs", "ls-files", "-z", "--", *inside)
    changed = _git(
        root, "--literal-pathspecs", "diff", "-z", "--name-only", "--relative", "HEAD", "--", *inside
    )
    if folder is None or tracked is None or changed is None:
        return {}
    unchanged = {*tracked.split("\0")} - {*changed.split("\0")}
    return {path: f"{folder}{path}" for path in inside if path in unchanged}


def _git(root: Path, *args: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *args], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
