"""The `git` entry of report.json: the commit, whether files differ from it, and which files are as in it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ...git_command import run_git
from ..document.document import Git

#: Paths that git is asked for: its command line has a limit.
_MOST_PATHS = 1000


def git_facts(root: Path, paths: Iterable[str] = ()) -> Git:
    """The commit checked out in ``root``, and whether tracked files differ; None outside of a repository.

    Untracked files do not count: reports and caches would make every second run dirty. ``files``: those of
    ``paths``, relative to ``root``, that are as in the commit, with their paths in the repository.
    """
    head = _git(root, "rev-parse", "HEAD")
    status = _git(root, "status", "--porcelain", "--untracked-files=no")
    return Git(
        head=head or None,
        dirty=bool(status) if status is not None else None,
        files=_committed(root, sorted({*paths})[:_MOST_PATHS]) if head else {},
    )


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
    answer = run_git(root, *args, timeout=20)
    return None if answer.code else answer.text
