"""Which commit is the base, and what to do where there is none; each in a repository of the test's own."""

import pytest

from pytest_membudget.comparison.base.git import (
    add_worktree,
    find_base,
    history_between,
    remove_worktree,
    submodules_in,
)
from pytest_membudget.comparison.base.sources import CommitSource
from pytest_membudget.errors import UsageMistake
from tests.repositories import git


def commit(folder, name, text):
    (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", name)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path):
    """``main`` has gone on by a commit since ``change`` left it."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "a.txt", "common")
    git(folder, "checkout", "-qb", "change")
    commit(folder, "b.txt", "change")
    git(folder, "checkout", "-q", "main")
    commit(folder, "c.txt", "main")
    git(folder, "checkout", "-q", "change")
    return folder


def refusal_of(folder, ref):
    with pytest.raises(UsageMistake) as refusal:
        find_base(folder, ref)
    text = str(refusal.value)
    assert text.startswith(f"--membudget-compare={ref}: ")
    return text


def test_the_base_is_where_the_branches_part(repository):
    top, commit = find_base(repository, "main")
    assert commit == git(repository, "rev-parse", "main~1")
    assert CommitSource("main", top, commit).shown == f"main (merge base {commit[:10]})"


def test_it_is_found_from_a_folder_below(repository):
    (repository / "below").mkdir()
    assert find_base(repository / "below", "main")[0] == repository


def test_an_unknown_reference_is_to_be_fetched(repository):
    text = refusal_of(repository, "origin/main")
    assert "there is no commit 'origin/main' in" in text
    assert text.endswith("as in: git fetch origin main")
    assert "there is no commit '--all'" in refusal_of(repository, "--all")  # though it looks like an option


def test_outside_of_a_repository_a_stored_report_is_named(tmp_path):
    text = refusal_of(tmp_path, "main")
    assert "is in no git repository" in text
    assert text.endswith("--membudget-compare=report.json")


def test_without_git_it_says_so(repository, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "needs git, which is not there" in refusal_of(repository, "main")


def test_branches_without_a_common_commit_are_refused(repository):
    git(repository, "checkout", "-q", "--orphan", "other")
    commit(repository, "d.txt", "other")
    assert "have no commit in common" in refusal_of(repository, "main")


@pytest.mark.parametrize(("branches", "said"), [((), "there is no commit"), (("main",), "does not reach")])
def test_a_shallow_clone_says_how_to_get_the_rest(repository, tmp_path, branches, said):
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth=1", "--branch=change", f"file://{repository}", str(clone))
    for branch in branches:
        git(clone, "fetch", "-q", "--depth=1", "origin", f"{branch}:{branch}")
    text = refusal_of(clone, "main")
    assert said in text
    assert "fetch-depth: 0" in text
    assert "git fetch --unshallow" in text


def test_a_worktree_has_the_bases_files_and_leaves_nothing(repository, tmp_path):
    before = (git(repository, "status", "--porcelain"), git(repository, "rev-parse", "HEAD"))
    path = tmp_path / "base" / "files"

    add_worktree(*find_base(repository, "main"), path)
    assert [one.name for one in sorted(path.glob("*.txt"))] == ["a.txt"]
    remove_worktree(repository, path)

    assert not path.exists()
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert (git(repository, "status", "--porcelain"), git(repository, "rev-parse", "HEAD")) == before


def test_removing_a_worktree_leaves_others_that_are_missing_alone(repository, tmp_path):
    other, path = tmp_path / "unmounted", tmp_path / "files"
    git(repository, "worktree", "add", "-q", "--detach", str(other), "main")
    other.rename(tmp_path / "elsewhere")

    add_worktree(*find_base(repository, "main"), path)
    remove_worktree(repository, path)

    assert str(other) in git(repository, "worktree", "list")


def test_the_users_hooks_do_not_run(repository, tmp_path):
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    add_worktree(*find_base(repository, "main"), tmp_path / "files")
    assert not (tmp_path / "ran").exists()


def test_another_repository_in_the_environment_is_not_looked_at(repository, monkeypatch, tmp_path):
    """As in a hook, where git sets GIT_DIR and GIT_INDEX_FILE."""
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert find_base(repository, "main")[0] == repository


def test_a_worktree_that_cannot_be_written_says_why(repository, tmp_path):
    path = tmp_path / "files"
    path.mkdir()
    (path / "there.txt").write_text("already")
    with pytest.raises(OSError, match=r"git worktree add failed: .*already exists"):
        add_worktree(*find_base(repository, "main"), path)


def test_submodules_are_named(repository, tmp_path):
    assert submodules_in(repository) == []
    module = tmp_path / "module"
    module.mkdir()
    git(module, "init", "-q")
    commit(module, "x.txt", "x")
    git(repository, "submodule", "--quiet", "add", str(module), "third/party")
    assert submodules_in(repository) == ["third/party"]


def test_the_history_between_two_commits_is_that_of_first_parents(repository):
    git(repository, "merge", "-q", "--no-ff", "-m", "merged", "main")
    found = history_between(repository, "change~1", "change")

    assert [subject for _, subject in found] == ["b.txt", "merged"]
    assert found[-1][0] == git(repository, "rev-parse", "HEAD")


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ("nowhere", "change", "there is no commit 'nowhere'"),
        ("main", "change", "the good commit is not an ancestor of the bad one"),
        ("main~1", "main", "main is not an ancestor of HEAD: git checkout main first"),
    ],
)
def test_a_history_that_cannot_be_walked_is_refused(repository, good, bad, message):
    with pytest.raises(UsageMistake, match=message):
        history_between(repository, good, bad)
