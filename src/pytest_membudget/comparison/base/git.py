"""Git commands: finds the base's commit, and adds and removes its worktree."""

import os
import shutil
from pathlib import Path

from ...errors import UsageMistake
from ...git_command import run_git

OPTION = "--membudget-compare"
#: Seconds for checking out a commit.
_CHECKOUT = 600.0
#: What to do about a shallow clone.
_DEEPER = (
    "fetch all of it: fetch-depth: 0 for actions/checkout, GIT_DEPTH: 0 on GitLab, git fetch --unshallow"
)


def find_base(folder: Path, ref: str) -> tuple[Path, str]:
    """The checkout that ``folder`` is in, and the merge base of ``ref`` and its HEAD.

    Raises ``UsageMistake`` with what to do: git is missing, no repository, no such commit, a shallow clone.
    """
    place = f"{OPTION}={ref}"
    if shutil.which("git") is None:
        raise UsageMistake(
            f"{place}: needs git, which is not there; install it, or compare with a report.json"
        )
    top = run_git(folder, "rev-parse", "--show-toplevel")
    if top.code:
        raise UsageMistake(
            f"{place}: {folder} is in no git repository that can be read ({top.first_error}); compare with "
            f"a stored report instead, as in {OPTION}=report.json"
        )
    root = Path(top.text)
    _check(place, root, ref)
    base = run_git(root, "merge-base", ref, "HEAD")
    if base.code or not base.text:
        if _is_shallow(root):
            raise UsageMistake(
                f"{place}: {root} is a shallow clone, whose history does not reach a common commit of "
                f"{ref} and HEAD; {_DEEPER}"
            )
        detail = f" ({base.first_error})" if base.first_error else ""
        raise UsageMistake(
            f"{place}: {ref} and HEAD have no commit in common{detail}; name a reference that HEAD came from"
        )
    return root, base.text.splitlines()[0]


def checkout_of(folder: Path) -> Path | None:
    """The top of the checkout that ``folder`` is in; None outside of a repository, and without git."""
    top = run_git(folder, "rev-parse", "--show-toplevel")
    return Path(top.text) if not top.code and top.text else None


def is_commit(folder: Path, ref: str) -> bool:
    """Whether ``ref`` names a commit of the repository that ``folder`` is in."""
    asked = ("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    return not ref.startswith("-") and not run_git(folder, *asked).code


def history_between(folder: Path, good: str, bad: str) -> list[tuple[str, str]]:
    """``good`` and the commits after it up to ``bad``, by first parents: each with its subject.

    Raises ``UsageMistake``: no such commits, ``good`` is not before ``bad``, or HEAD not after it.
    """
    top = checkout_of(folder)
    if top is None:
        raise UsageMistake(f"{folder} is in no git repository; bisect commits in a checkout")
    for ref in (good, bad):
        _check(ref, top, ref)
    if run_git(top, "merge-base", "--is-ancestor", good, bad).code:
        raise UsageMistake(f"{good} {bad}: the good commit is not an ancestor of the bad one")
    if run_git(top, "merge-base", "--is-ancestor", bad, "HEAD").code:
        raise UsageMistake(f"{bad} is not an ancestor of HEAD: git checkout {bad} first")
    form = "--format=%H%x09%s"
    first = run_git(top, "log", "-1", form, good).text
    rest = run_git(top, "log", "--first-parent", "--reverse", form, f"{good}..{bad}").text
    lines = [line.partition("\t") for line in [first, *rest.splitlines()]]
    return [(commit, subject) for commit, _, subject in lines]


def worktree_in(folder: Path, top: Path) -> Path:
    """The worktree of a base's run, in its ``folder``; tools use the name of the checkout ``top``."""
    return folder / "worktree" / top.name


def add_worktree(top: Path, commit: str, path: Path) -> None:
    """Check out ``commit`` in a worktree at ``path``. Raises ``OSError`` with git's message."""
    done = run_git(
        top,
        # the user's hooks must not run here
        *("-c", f"core.hooksPath={os.devnull}", "worktree", "add", "--detach", "--quiet"),
        *(str(path), commit),
        timeout=_CHECKOUT,
    )
    if done.code:
        raise OSError(f"git worktree add failed: {done.first_error}")


def remove_worktree(top: Path, path: Path) -> None:
    """Remove the worktree at ``path``, if there is one, and git's entry for it; other worktrees stay."""
    shutil.rmtree(path, ignore_errors=True)
    run_git(top, "worktree", "remove", "--force", "--force", str(path))


def submodules_in(path: Path) -> list[str]:
    """The paths of the submodules of the commit at ``path``, which are not checked out there."""
    if not (path / ".gitmodules").is_file():
        return []
    listed = run_git(path, "config", "--file", ".gitmodules", "--get-regexp", r"^submodule\..*\.path$")
    return [line.partition(" ")[2] for line in listed.text.splitlines()]


def _check(place: str, root: Path, ref: str) -> None:
    """Raise ``UsageMistake`` with what to do if ``root`` has no commit ``ref``."""
    if is_commit(root, ref):
        return
    known = f"{place}: there is no commit {ref!r} in {root}"
    if _is_shallow(root):
        raise UsageMistake(f"{known}, a shallow clone; {_DEEPER}")
    raise UsageMistake(f"{known}; fetch it first, as in: git fetch origin {ref.removeprefix('origin/')}")


def _is_shallow(root: Path) -> bool:
    return run_git(root, "rev-parse", "--is-shallow-repository").text == "true"
