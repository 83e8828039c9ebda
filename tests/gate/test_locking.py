"""The lock file in whole sessions with given estimates: recorded, kept, raised, and left by removed tests."""

from dataclasses import replace

import pytest

from pytest_membudget.budgets.budget import parse_growth
from pytest_membudget.gate.lock_file import UPDATE, Locking, Rules, read_lock
from pytest_membudget.results.comparison import LOCK_FILE
from tests.gate.test_lock_check import result

ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
ASKED = (
    *("-p", "pytest_membudget.plugin", "-p", "pytest_membudget.testing"),
    *("--membudget", "--membudget-report=membudget"),
)
FILES = {
    "conftest.py": """
        import os
        from pathlib import Path

        from pytest_membudget.testing import GivenEstimates, takes

        def pytest_membudget_estimates():
            size = float(os.environ.get("SIZE", "1"))
            sizes = {"test_bare": takes(size), "test_each[a: b]": takes(2), "test_each[2]": takes(3 * size)}
            sizes |= {"test_card": takes(4, activations=3), "test_gib": takes(size), "test_errs": takes(0)}
            return GivenEstimates({f"test_a.py::{name}": one for name, one in sizes.items()})

        if "READ_ONLY" in os.environ:
            whole = Path.replace

            def replace(self, target):
                if Path(target).name == "membudget.lock.yaml":
                    raise OSError(30, "Read-only file system")
                return whole(self, target)

            Path.replace = replace
        """,
    "test_a.py": """
        import pytest

        @pytest.mark.mem_budget
        def test_bare(): ...

        @pytest.mark.mem_budget()
        @pytest.mark.parametrize("name", ["a: b", 2])
        def test_each(name): ...

        @pytest.mark.mem_budget(gpu="A100-40GB", gpus=2)
        def test_card(): ...

        @pytest.mark.mem_budget(gib=2)
        def test_gib(): ...

        @pytest.mark.mem_budget
        def test_errs(): ...
        """,
}
LOCKED = {
    "test_a.py::test_bare",
    "test_a.py::test_each[a: b]",
    "test_a.py::test_each[2]",
    "test_a.py::test_card",
}


@pytest.fixture
def project(tmp_path, write_all, in_folder):
    """``project(*args)`` runs the session of ``FILES``; its ``folder`` has them."""
    write_all(tmp_path, FILES)

    def run(*args, **env):
        return in_folder(tmp_path, *ASKED, *args, env={**ALONE, **env})

    run.folder = tmp_path
    run.entries = lambda: read_lock(tmp_path / LOCK_FILE)
    return run


def statuses(run):
    return {name: row["lock"]["status"] for name, row in run.rows.items() if row["lock"] is not None}


def test_figures_are_recorded_kept_and_raised_on_demand_alone(project):
    before = project()
    assert statuses(before) == {}
    assert before.rows["test_bare"]["verdict"] == "unset"
    assert project.entries() is None

    recorded = project("--membudget-update")
    assert {nodeid: entry.bytes // 2**30 for nodeid, entry in project.entries().items()} == dict(
        zip(sorted(LOCKED), (1, 4, 3, 2), strict=True)
    )
    assert "membudget.lock.yaml: 4 written, 0 removed" in recorded.summary
    assert recorded.rows["test_bare"]["verdict"] == "within"

    kept = project("--membudget-strict")
    assert {*statuses(kept).values()} == {"unchanged"}
    assert kept.outcomes["test_bare"] == "passed"
    assert [name for name, outcome in kept.outcomes.items() if outcome == "failed"] == ["test_errs"]
    assert any("4 in the lock file (4 unchanged)" in line for line in kept.summary)

    text = (project.folder / LOCK_FILE).read_text()
    for grown in (project(SIZE="1.5"), project("--membudget-update", SIZE="1.5")):
        assert grown.outcomes["test_bare"] == grown.outcomes["test_each[2]"] == "failed"
        assert "more than its entry in membudget.lock.yaml: inputs +0.50 GiB" in grown.message("test_bare")
        assert grown.rows["test_bare"]["lock"]["base"]["bytes"] == 2**30
        assert (project.folder / LOCK_FILE).read_text() == text

    assert project("--membudget-update=raise", SIZE="1.5").outcomes["test_bare"] == "passed"
    assert project.entries()["test_a.py::test_bare"].bytes == 3 * 2**29

    shrunk = project()
    assert shrunk.outcomes["test_bare"] == "passed"
    assert any(line.startswith("shrunk: test_a.py::test_bare takes 0.50 GiB") for line in shrunk.summary)
    assert project("--membudget-strict").outcomes["test_bare"] == "failed"


def test_entries_of_tests_that_there_are_no_longer_leave_with_a_whole_session(project, both_ways):
    workers = ("-p", "xdist.plugin", *both_ways) if both_ways else ()
    project("--membudget-update", *workers)
    tests = project.folder / "test_a.py"
    tests.write_text(tests.read_text().replace('"a: b", 2', "2").replace("gpus=2)", "gpus=2, gib=5)"))
    gone = "test_a.py::test_each[a: b]"

    (project.folder / "test_broken.py").write_text("import nowhere_to_be_found\n")
    for part in (("-k", "test_bare"), ("test_a.py",), ("--continue-on-collection-errors",)):
        project(*workers, *part, "--membudget-update")
        assert gone in project.entries()
    (project.folder / "test_broken.py").unlink()

    assert any(gone in line for line in project().summary if line.startswith("membudget.lock.yaml: no test"))
    project(*workers, "--membudget-update")
    assert {*project.entries()} == LOCKED - {gone, "test_a.py::test_card"}  # that has a gib now


def test_a_file_that_cannot_be_written_fails_the_session(project):
    run = project("--membudget-update", "--deselect", "test_a.py::test_errs", READ_ONLY="1")

    assert run.status == 1
    assert any("cannot be written, so nothing was recorded" in line for line in run.summary)
    assert project.entries() is None


def test_a_conflict_in_the_file_ends_the_session(project):
    (project.folder / LOCK_FILE).write_text("version: 1\n<<<<<<< HEAD\ntests:\n")

    for run in (project(), project("--membudget-update")):
        assert run.status == 4
        assert "membudget.lock.yaml:2: <<<<<<< HEAD: this is a merge conflict" in run.err


def test_a_path_behind_the_option_is_refused_and_so_is_the_option_alone(project, in_folder):
    assert (
        "write --membudget-update=raise, or a path before" in project("--membudget-update", "test_a.py").err
    )
    alone = in_folder(project.folder, "-p", "pytest_membudget.plugin", "--membudget-update", env=ALONE)
    assert "--membudget-update needs --membudget" in alone.err


def test_two_sessions_at_once_record_what_each_has_found(tmp_path):
    rules = Rules(parse_growth("1%"), "2.13.0", UPDATE)
    sessions = [Locking(tmp_path, rules), Locking(tmp_path, rules)]

    for nodeid, session in zip(("a", "b"), sessions, strict=True):
        session.finish([session.check(replace(result(), nodeid=nodeid))], None)

    assert {*read_lock(tmp_path / LOCK_FILE)} == {"a", "b"}
