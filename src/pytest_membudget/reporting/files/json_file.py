"""Writes report.json: all results, and the versions that they were made with."""

import functools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from ...atomic_files import replacing
from ...devices.torch_build.installed import estimates_torch
from ...git_command import run_git
from ...names import alloc_conf_of
from ...results.comparison import ComparedSession
from ...results.test_result import TestResult
from ..document import Document, Git

#: Paths that git is asked for: its command line has a limit.
_MOST_PATHS = 1000


def write_report(
    folder: Path,
    root: Path,
    results: Sequence[TestResult],
    *,
    comparison: ComparedSession | None = None,
    testing: bool = False,
) -> Path:
    """Write ``folder``/report.json; the folder is made if need be. Raises ``OSError``.

    ``comparison``: of the whole session with the base. ``testing``: estimates were given by
    ``pytest_membudget.testing``.
    """
    document = Document(
        tuple(results),
        comparison,
        testing=testing,
        torch=torch_of(os.environ),
        alloc_conf=alloc_conf_of(os.environ),
        git=git_of(root, _places(results)),
        distributions=installed_distributions(),
    ).to_json()
    if comparison is None:
        del document["comparison"]
    for row in document["tests"]:
        for name in TestResult.unreported:
            del row[name]
    folder.mkdir(parents=True, exist_ok=True)
    path, text = folder / "report.json", json.dumps(document, indent=1) + "\n"
    try:
        with replacing(path) as file:
            file.write(text.encode())
    except BaseException:
        with suppress(OSError):  # no file of an earlier session is left
            path.unlink()
        raise
    return path


def _places(results: Sequence[TestResult]) -> Iterator[str]:
    """The files of all lines that reports show."""
    for result in results:
        yield result.file
        found = [holder.location for figure in result.estimates for holder in figure.holders]
        found += [change.location for change in result.findings]
        yield from (location.rpartition(":")[0] for location in found if location)


def git_of(root: Path, paths: Iterable[str] = ()) -> Git:
    """The commit checked out in ``root``, and whether tracked files differ; None outside of a repository.

    Untracked files do not count: reports and caches would make every second run dirty. ``files``: those of
    ``paths``, relative to ``root``, that are as in the commit, with their paths in the repository.
    """
    commit = _git(root, "rev-parse", "HEAD")
    status = _git(root, "status", "--porcelain", "--untracked-files=no")
    return Git(
        commit=commit or None,
        dirty=bool(status) if status is not None else None,
        files=_committed(root, sorted({*paths})[:_MOST_PATHS]) if commit else {},
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


def torch_of(environment: Mapping[str, str]) -> str | None:
    """The version of torch of this session's figures, which need not be the environment's own."""
    build = estimates_torch(environment)
    return build.version if build is not None else None


@functools.cache
def installed_distributions() -> Mapping[str, str]:
    """The versions of installed distributions, by name; of two with one name, the one that is imported."""
    found: dict[str, str] = {}
    for one in metadata.distributions():
        head = one.metadata  # read and parsed each time that it is asked for
        # an interrupted installation leaves one without a name
        if head["Name"]:
            found.setdefault(head["Name"], head["Version"])
    return dict(sorted(found.items()))
