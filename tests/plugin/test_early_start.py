"""A worker's process starts while tests are collected, and is used where it is what a later one would be."""

import os
import sys
import time

import pytest

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="asks /proc when a process began"),
    pytest.mark.usefixtures("cold_python"),
]

TEST = """
    import os
    import time
    from pathlib import Path

    import pytest
    from holding import hold

    FILE = Path("collected")
    if not FILE.exists():  # not in the worker
        FILE.write_text(str(time.clock_gettime(time.CLOCK_BOOTTIME)))
        time.sleep(0.1)
        {change}

    @pytest.mark.mem_budget(gib=1)
    def test_it():
        kept = hold(0.5)
        fields = Path(f"/proc/{{os.getppid()}}/stat").read_text().rpartition(")")[2].split()
        Path("began").write_text(str(int(fields[19]) / os.sysconf("SC_CLK_TCK")))
    """


def times(run):
    return [float((run.folder / name).read_text()) for name in ("began", "collected")]


def test_it_begins_before_the_test_is_collected_and_a_cached_session_starts_none(session_of, again, tmp_path):
    kept = {"MEMBUDGET_CACHE_DIR": str(tmp_path)}
    run = session_of({"test_it.py": TEST.format(change="")}, "--membudget", env=kept)

    assert run.outcomes == {"test_it": "passed"}, run.out
    began, collected = times(run)
    assert began < collected
    assert not list(tmp_path.glob("idle/*"))


def test_what_changed_meanwhile_starts_another(session_of):
    """A variable that torch reads when it is imported."""
    change = "os.environ['PYTORCH_ALLOC_CONF'] = 'expandable_segments:True'"
    run = session_of({"test_it.py": TEST.format(change=change)}, "--membudget")

    assert run.outcomes == {"test_it": "passed"}, run.out
    began, collected = times(run)
    assert began > collected


def test_a_session_without_budgets_leaves_nothing_and_the_next_starts_nothing(session_of, again, tmp_path):
    kept = {"MEMBUDGET_CACHE_DIR": str(tmp_path / "kept"), "TMPDIR": str(tmp_path)}
    began = time.monotonic()
    run = session_of({"test_plain.py": "def test_plain(): pass"}, "--membudget", env=kept, report=False)

    assert run.outcomes == {"test_plain": "passed"}, run.out
    assert len(list(tmp_path.glob("kept/idle/*"))) == 1
    assert not list(tmp_path.glob("membudget-*"))
    assert not _processes_in(tmp_path)
    assert time.monotonic() - began < 60


def _processes_in(folder):
    """The processes with ``folder`` for their temporary files."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                found += [pid] if f"TMPDIR={folder}\0".encode() in file.read() else []
        except OSError:
            continue
    return found
