"""Git commands give what the folder's own repository has."""

import subprocess

from pytest_membudget.git_command import run_git


def test_variables_of_git_hooks_do_not_choose_another_repository(tmp_path, monkeypatch):
    for name in ("own", "hook"):
        subprocess.run(["git", "init", "-q", str(tmp_path / name)], check=True)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "hook" / ".git"))

    answer = run_git(tmp_path / "own", "rev-parse", "--absolute-git-dir")

    assert (answer.code, answer.text) == (0, str(tmp_path / "own" / ".git"))


def test_a_command_that_fails_has_its_status_and_first_line(tmp_path):
    answer = run_git(tmp_path, "rev-parse", "HEAD")

    assert answer.code != 0
    assert answer.first_error.startswith("fatal: not a git repository")


def test_a_command_that_takes_too_long_or_cannot_start_has_failed(tmp_path, monkeypatch):
    assert "timed out" in run_git(tmp_path, "--version", timeout=0).first_error

    monkeypatch.setenv("PATH", "")
    assert run_git(tmp_path, "--version").code == 1
