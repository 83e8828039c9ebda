"""Estimates kept by one session and used by the next: what is kept, what never is, and what is said of it."""

import pytest

from tests.plugin.bodies import source

HEAD = """\
import pathlib
import socket
import subprocess

import pytest
from holding import hold

budget = pytest.mark.mem_budget(gib=1)

"""
BODIES = {
    "plain": "record_property('tokens', 4096)\nhold(0.5)",
    "over": "hold(2)",
    "too_large_for_its_card": "hold(50)",
    "files_of_its_own": (
        "(tmp_path / 'size.txt').write_text('0.5')\n(tmp_path / 'folder').mkdir()\n"
        "assert not list((tmp_path / 'folder').iterdir())\n"
        "hold(float((tmp_path / 'size.txt').read_text()))"
    ),
    "two_ranks": "hold(0.5)",
    "process": "subprocess.run(['true'])\nhold(gib)",
    "socket": "with socket.socket() as listener:\n    listener.bind(('127.0.0.1', 0))\nhold(0.5)",
    "overwrites_what_it_read": (  # it is put back
        "counter = pathlib.Path(__file__).with_name('counter.txt')\n"
        "counter.write_text(str(int(counter.read_text()) + 1))\nhold(0.5)"
    ),
    "changes_what_it_read": (
        "log = pathlib.Path(__file__).with_name('log.txt')\nlog.read_text()\n"
        "with log.open('a') as file:\n    file.write('ran')\nhold(0.5)"
    ),
    "raises": "hold(0.5)\nraise ValueError('as ever')",
    "skips": "pytest.skip('as ever')",
}
MARKS = {
    "too_large_for_its_card": "pytest.mark.mem_budget(gpu='A100-40GB')",
    "two_ranks": "pytest.mark.mem_budget(gib=1, gpus=2)",
    "process": "pytest.mark.parametrize('gib', [0.25, 0.5, 0.75])\n@budget",
}
ARGUMENTS = {"plain": "record_property", "files_of_its_own": "tmp_path", "process": "gib"}
TESTS = source(BODIES, HEAD, MARKS, ARGUMENTS)
KEPT = {
    "test_plain", "test_over", "test_too_large_for_its_card", "test_files_of_its_own", "test_two_ranks",
    "test_overwrites_what_it_read",
}  # fmt: skip
PROCESSES = {"test_process[0.25]", "test_process[0.5]", "test_process[0.75]"}
NEVER_KEPT = {"test_socket", "test_changes_what_it_read", "test_raises", "test_skips"} | PROCESSES


REPORT = ("--membudget", "--membudget-report=membudget")


@pytest.fixture(scope="module")
def run_twice(session_of, again, tmp_path_factory, cache_in):
    """``run_twice(files, *more)``: a session, and a second one with ``more``."""

    def run(files, *more):
        env = cache_in(tmp_path_factory.mktemp("kept"))
        first = session_of(files, *REPORT, report=False, env=env)
        return first, again(first, *REPORT, *more, env=env)

    return run


@pytest.fixture(scope="module")
def runs(run_twice):
    """Alone, and then with pytest-xdist, whose workers use what a session alone has kept."""
    pytest.importorskip("xdist")
    return run_twice({"test_kept.py": TESTS, "counter.txt": "0", "log.txt": "ran"}, "-n2")


def test_the_first_session_uses_nothing(runs):
    first, _ = runs

    assert set(first.rows) == KEPT | NEVER_KEPT
    assert not any(row["cached"] for row in first.rows.values())
    assert "from cache" not in first.out


def test_the_second_uses_figures_that_cannot_have_changed(runs):
    _, second = runs

    assert {name for name, row in second.rows.items() if row["cached"]} == KEPT


@pytest.mark.parametrize("name", sorted(KEPT))
def test_a_kept_row_is_the_one_that_was_estimated(runs, name):
    first, second = (run.rows[name] for run in runs)

    assert {**second, "cached": False} == first


def test_the_summary_counts_them(runs):
    _, second = runs

    assert "11 estimated (9 within, 2 over, 6 from cache)" in second.out


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("test_process[0.25] and 2 more", "subprocess.Popen"),
        ("test_socket", "socket.bind"),
        ("test_changes_what_it_read", "log.txt was changed while the test ran"),
    ],
)
def test_the_summary_says_what_is_never_kept_and_why(runs, name, reason):
    for run in runs:
        assert run.summary.count(f"estimated in every session ({reason}): test_kept.py::{name}") == 1


SCRIPT = """
    import os
    import subprocess
    import time

    import torch

    folder = f"data/runs/{time.time_ns()}"
    os.makedirs(folder)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    compiler = subprocess.run("cc --version", shell=True, capture_output=True, text=True).stdout
    with open(f"{folder}/log.txt", "w") as log:
        print(commit, compiler, os.listdir("data"), os.stat("data").st_uid, file=log)
    held = torch.empty(2**28, dtype=torch.uint8, device="cuda")
    """
ENTRY = """
budgets:
  - name: writes
    gib: 1
    script: train.py
"""


@pytest.mark.parametrize("outputs", ["", "    outputs: data/runs\n"])
def test_a_script_that_asks_git_and_writes_files_is_kept(run_twice, outputs):
    first, second = run_twice({"data/mine": "", "train.py": SCRIPT, "it.membudget.yaml": ENTRY + outputs})

    assert [run.rows["writes"]["cached"] for run in (first, second)] == [False, True], first.out
    assert not (first.folder / "data/runs").exists()  # what it has made is removed


PLAIN = """
    import pytest
    from holding import hold

    @pytest.mark.parametrize("gib", [0.25, 0.5])
    @pytest.mark.mem_budget(gib=1)
    def test_plain(gib):
        hold(gib)
    """


def test_a_folder_that_cannot_be_written_is_a_notice(session_of, tmp_path, cache_in):
    """One of all processes; of a session alone: tests/plugin/test_bad_places.py."""
    pytest.importorskip("xdist")
    (tmp_path / "estimates").write_text("in the place of the folder")
    run = session_of({"test_plain.py": PLAIN}, "--membudget", "-n2", env=cache_in(tmp_path))

    assert run.status == 0
    notice = f"membudget: estimates could not be kept for later sessions: Not a directory: {tmp_path}"
    assert sum(line.startswith(notice) for line in run.summary) == 1
