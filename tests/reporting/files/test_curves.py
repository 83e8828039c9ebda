"""Memory over the commits of the lock file: which tests have a curve, and what it shows."""

import subprocess

import pytest

from pytest_membudget.reporting.files.curves import COMMITS, curves

GIB = 2**30
NOW = "tests/test_memory.py::test_step"  # takes 4 GiB
HOSTILE = "a.py::test[|`<b>`]"


@pytest.fixture
def repository(tmp_path):
    """``repository(text, ...)``: a folder with a commit of the lock file for each text, one a day."""
    git = ("git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.com")

    def commit(*texts):
        subprocess.run([*git, "init", "-q"], check=True)
        for number, text in enumerate(texts):
            (tmp_path / "membudget.lock.yaml").write_text(text)
            subprocess.run([*git, "add", "."], check=True)
            day = {"GIT_COMMITTER_DATE": f"2026-11-{number % 28 + 1:02}T12:00:00Z"}
            subprocess.run([*git, "commit", "-qm", "a"], check=True, env=day)
        return tmp_path

    return commit


def lock(**gib):
    names = {"step": NOW, "other": "other", "hostile": HOSTILE}
    entries = "".join(
        f"  {names[name]!r}:\n    bytes: {int(size * GIB)}\n    metric: allocated\n"
        for name, size in gib.items()
    )
    return f"version: 1\ntests:\n{entries}"


def plain(text):
    return text.replace("\u00a0", " ").replace("\u2011", "-")


def rows(text):
    return [plain(line) for line in text.splitlines() if line.startswith("|")][2:]


def test_a_curve_has_a_bar_for_each_commit_from_the_lowest_to_the_highest_and_ends_with_this_run(
    repository, document, row
):
    folder = repository(lock(other=9), lock(step=3), lock(step=3.5), lock(step=2))

    [curve] = rows(curves(folder, document(row()).tests))
    # 2 to 4 GiB in 8 bars: 3 is the middle one, 3.5 three quarters up
    assert curve == f"| ▅▆▁█ | 3.00 GiB on 2026-11-02 | 4.00 GiB | `{NOW}` |"


def test_a_figure_that_has_not_changed_has_no_curve(repository, document, row):
    folder = repository(lock(step=4), lock(step=4, other=1))

    assert curves(folder, document(row(), row("new"), row("skipped", estimates=[])).tests) == ""


#: What the test may take for a while, which is no figure.
EXCUSE = f"tests:\n  {NOW}: {{bytes: 99, until: 2026-12-31, reason: a}}\n"


@pytest.mark.parametrize("text", ["<<<<<<< a\n", "tests: 1\n", "- 1\n", f"tests:\n  {NOW}: 1\n", "", EXCUSE])
def test_a_commit_whose_file_is_broken_is_passed_over(repository, document, row, text):
    folder = repository(lock(step=3), text, lock(step=2))

    [curve] = rows(curves(folder, document(row()).tests))
    assert curve.startswith("| ▅▁█ | 3.00 GiB on 2026-11-01 |")


def test_the_last_commits_alone_are_shown(repository, document, row):
    folder = repository(*(lock(step=1 + number / 100) for number in range(COMMITS + 2)))

    [curve] = rows(curves(folder, document(row()).tests))
    assert len(curve.split()[1]) == COMMITS + 1
    assert "| 1.02 GiB on 2026-11-03 |" in curve


def test_a_name_is_code_and_a_folder_without_git_has_no_curves(repository, tmp_path, document, row):
    tests = document(row(HOSTILE)).tests

    assert curves(tmp_path, tests) == ""
    [curve] = rows(curves(repository(lock(hostile=1)), tests))
    assert curve.endswith("<code>a&#46;py&#58;&#58;test&#91;&#124;&#96;&#60;b&#62;&#96;&#93;</code> |")


def test_the_command_adds_them_to_markdown(repository, command, raw, row):
    folder = repository(lock(step=3))

    status, out, _ = command(raw(row()), "--format=markdown", f"--history={folder}")
    assert status == 0
    assert "| ▁█ | 3.00 GiB on 2026-11-01 | 4.00 GiB |" in plain(out)
