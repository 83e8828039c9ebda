"""Estimates kept by one session and used by the next: what is kept, what never is, and what is said of it."""

import os
from pathlib import Path

import pytest

from pytest_membudget.cache.store import FORMAT

TESTS = """
    import pathlib
    import socket
    import subprocess

    import pytest
    from holding import hold

    @pytest.mark.mem_budget(gib=1)
    def test_plain(record_property):
        record_property("tokens", 4096)
        hold(0.5)

    @pytest.mark.mem_budget(gib=1)
    def test_over():
        hold(2)

    @pytest.mark.mem_budget(gpu="A100-40GB")
    def test_too_large_for_its_card():
        hold(50)

    @pytest.mark.mem_budget(gib=1)
    def test_files_of_its_own(tmp_path):
        (tmp_path / "size.txt").write_text("0.5")
        (tmp_path / "folder").mkdir()
        assert not list((tmp_path / "folder").iterdir())
        hold(float((tmp_path / "size.txt").read_text()))

    @pytest.mark.mem_budget(gib=1, gpus=2)
    def test_two_ranks():
        hold(0.5)

    @pytest.mark.mem_budget(gib=1)
    def test_process():
        subprocess.run(["true"])
        hold(0.5)

    @pytest.mark.mem_budget(gib=1)
    def test_socket():
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
        hold(0.5)

    @pytest.mark.mem_budget(gib=1)
    def test_changes_what_it_read():
        counter = pathlib.Path(__file__).with_name("counter.txt")
        counter.write_text(str(int(counter.read_text()) + 1))
        hold(0.5)

    @pytest.mark.mem_budget(gib=1)
    def test_raises():
        hold(0.5)
        raise ValueError("as ever")

    @pytest.mark.mem_budget(gib=1)
    def test_skips():
        pytest.skip("as ever")
    """
KEPT = {"test_plain", "test_over", "test_too_large_for_its_card", "test_files_of_its_own", "test_two_ranks"}
NEVER_KEPT = {"test_process", "test_socket", "test_changes_what_it_read", "test_raises", "test_skips"}


def cache_in(folder):
    """The variable of the cache's folder, in which torch has passed its self-check before."""
    passed = Path(os.environ["MEMBUDGET_CACHE_DIR"], "self-checks")
    (folder / "self-checks").mkdir()
    for path in passed.iterdir() if passed.exists() else ():
        (folder / "self-checks" / path.name).touch()
    return {"MEMBUDGET_CACHE_DIR": str(folder)}


REPORT = ("--membudget", "--membudget-report=membudget", "--membudget-snapshots")


@pytest.fixture(scope="module")
def run_twice(session_of, again, tmp_path_factory):
    """``run_twice(files, *more)``: a session, its first snapshot, and a second session with ``more``."""

    def run(files, *more):
        env = cache_in(tmp_path_factory.mktemp("kept"))
        first = session_of(files, *REPORT, report=False, env=env)
        row = first.report["tests"][0]
        snapshot = (first.report_path.parent / row["snapshot"]).read_bytes()
        return first, snapshot, again(first, *REPORT, *more, env=env)

    return run


@pytest.fixture(scope="module")
def runs(run_twice):
    return run_twice({"test_kept.py": TESTS, "counter.txt": "0"})


def test_the_first_session_uses_nothing(runs):
    first, _, _ = runs

    assert set(first.rows) == KEPT | NEVER_KEPT
    assert not any(row["cached"] for row in first.rows.values())
    assert "from cache" not in first.out


def test_the_second_uses_figures_that_cannot_have_changed(runs):
    _, _, second = runs

    assert {name for name, row in second.rows.items() if row["cached"]} == KEPT


@pytest.mark.parametrize("name", sorted(KEPT))
def test_a_kept_row_is_the_one_that_was_estimated(runs, name):
    first, second = (run.rows[name] for run in (runs[0], runs[2]))

    assert {**second, "cached": False} == first


def test_the_summary_counts_them(runs):
    _, _, second = runs

    assert "8 estimated (6 within, 2 over, 5 from cache)" in second.out


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("test_process", "subprocess.Popen"),
        ("test_socket", "socket.bind"),
        ("test_changes_what_it_read", "counter.txt was changed while the test ran"),
    ],
)
def test_the_summary_says_what_is_never_kept_and_why(runs, name, reason):
    for run in (runs[0], runs[2]):
        assert f"estimated in every session ({reason}): test_kept.py::{name}\n" in run.out


def test_a_kept_snapshot_lies_where_the_report_says(runs):
    _, snapshot, second = runs
    path = second.report_path.parent / second.rows["test_plain"]["snapshot"]

    assert path.read_bytes() == snapshot


SCRIPT = """
    import os
    import subprocess
    import time

    import torch

    folder = f"runs/{time.time_ns()}"
    os.makedirs(folder)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    compiler = subprocess.run("cc --version", shell=True, capture_output=True, text=True).stdout
    with open(f"{folder}/log.txt", "w") as log:
        print(commit, compiler, file=log)
    held = torch.empty(2**28, dtype=torch.uint8, device="cuda")
    """
ENTRY = """
budgets:
  - name: writes
    gib: 1
    script: train.py
    outputs: runs
"""


def test_a_script_that_asks_git_and_writes_its_outputs_is_kept(run_twice):
    first, _, second = run_twice({"train.py": SCRIPT, "it.membudget.yaml": ENTRY})

    assert [run.rows["writes"]["cached"] for run in (first, second)] == [False, True], first.out
    assert len(list((first.folder / "runs").iterdir())) == 1


PLAIN = """
    import pytest
    from holding import hold

    @pytest.mark.parametrize("gib", [0.25, 0.5])
    @pytest.mark.mem_budget(gib=1)
    def test_plain(gib):
        hold(gib)
    """


PROCESSES = """
    import subprocess

    import pytest
    from holding import hold

    @pytest.mark.parametrize("gib", [0.25, 0.5, 0.75])
    @pytest.mark.mem_budget(gib=1)
    def test_process(gib):
        subprocess.run(["true"])
        hold(gib)
    """


@pytest.mark.parametrize("args", [(), ("-n2",)], ids=["alone", "parallel"])
def test_what_cannot_be_kept_is_a_line_a_reason(session_of, args, tmp_path):
    run = session_of({"test_it.py": PROCESSES}, "--membudget", *args, env=cache_in(tmp_path))

    line = "estimated in every session (subprocess.Popen): test_it.py::test_process[0.25] and 2 more"
    assert run.summary.count(line) == 1


@pytest.fixture(scope="module")
def alone_and_parallel(run_twice):
    return run_twice({"test_plain.py": PLAIN}, "-n2")


def test_xdist_workers_use_what_a_session_alone_has_kept(alone_and_parallel):
    _, _, parallel = alone_and_parallel

    assert {name: row["cached"] for name, row in parallel.rows.items()} == {
        "test_plain[0.25]": True,
        "test_plain[0.5]": True,
    }
    assert "2 estimated (2 within, 0 over, 2 from cache)" in parallel.out


@pytest.mark.parametrize("args", [(), ("-n2",)], ids=["alone", "parallel"])
def test_a_folder_that_cannot_be_written_is_a_notice(session_of, args, tmp_path):
    (tmp_path / f"estimates-{FORMAT}").write_text("in the place of the folder")
    run = session_of({"test_plain.py": PLAIN}, "--membudget", *args, env=cache_in(tmp_path))

    assert run.status == 0
    notice = f"membudget: estimates could not be kept for later sessions: Not a directory: {tmp_path}"
    assert sum(line.startswith(notice) for line in run.summary) == 1
