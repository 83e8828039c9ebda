"""What report.json says of the repository."""

import functools

import pytest

from pytest_membudget.reporting.document import Git
from pytest_membudget.reporting.files.json_file import git_of
from tests import repositories


@pytest.fixture
def git(tmp_path):
    return functools.partial(repositories.git, tmp_path)


def test_files_that_are_as_in_the_commit_are_named_with_their_paths_in_the_repository(git, tmp_path):
    root = tmp_path / "pkg"
    (root / "src").mkdir(parents=True)
    for name in ("src/model.py", "changed.py", "star*.py", "staged.py"):
        (root / name).write_text("x = 1\n")
    git("init")
    git("add", ".")
    git("commit", "-m", "all")
    (root / "changed.py").write_text("x = 2\n")
    (root / "staged.py").write_text("x = 2\n")
    git("add", "pkg/staged.py")
    (root / "untracked.py").write_text("x = 1\n")
    asked = [
        "src/model.py",
        "changed.py",
        "staged.py",
        "untracked.py",
        "star*.py",
        "torch/x.py",
        "/etc/passwd",
        "",
    ]

    facts = git_of(root, asked)

    assert facts.commit == git("rev-parse", "HEAD")
    assert facts.dirty is True
    assert facts.files == {"src/model.py": "pkg/src/model.py", "star*.py": "pkg/star*.py"}


def test_without_a_repository_nothing_is_known(tmp_path):
    assert git_of(tmp_path, ["a.py"]) == Git()
