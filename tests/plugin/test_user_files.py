"""The worker repeats the session, and leaves alone what the session itself writes, keeps and cleans up."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

FILES = {
    "where": "",  # what a test makes is removed
    "test_budgets.py": """
        import logging
        from pathlib import Path

        import pytest
        from holding import hold

        def test_plain(tmp_path, tmp_path_factory):
            (tmp_path / "kept").write_text("of the session")
            logging.getLogger().warning("a line of the session")

        @pytest.mark.mem_budget(gib=1)
        def test_within(tmp_path):
            logging.getLogger().warning("a line of the worker")
            (tmp_path / "other").write_text("of the worker")
            Path("where").write_text(str(tmp_path))
            hold(0.5)

        @pytest.mark.mem_budget(gib=1)
        def test_over(tmp_path):
            kept = hold(2)

        def test_late(tmp_path):
            assert (tmp_path.parent / "test_plain0" / "kept").exists()
        """,
}
OPTIONS = ("--basetemp=temporary", "--log-file=session.log", "--debug=debug.log", "--cache-clear")


@pytest.fixture(scope="module", params=[(), ("-n1",)], ids=["alone", "xdist"])
def run(request, session_of):
    if request.param:
        pytest.importorskip("xdist")
    return session_of(FILES, "--membudget", *OPTIONS, *request.param)


def test_temporary_folders_of_the_session_are_not_the_workers(run):
    assert run.outcomes == {
        "test_plain": "passed", "test_within": "passed", "test_over": "failed", "test_late": "passed"
    }, run.out  # fmt: skip
    where = (run.folder / "where").read_text()
    assert str(run.folder) not in where


def test_what_the_worker_made_is_gone_with_it(run):
    where = (run.folder / "where").read_text()

    assert not os.path.exists(where)
    assert not os.path.exists(os.path.dirname(os.path.dirname(where)))


def test_junit_is_written_once_and_whole(run):
    assert len(run.cases) == 4


def test_the_log_files_are_the_sessions(run):
    log = (run.folder / "session.log").read_text()
    if log:  # pytest-xdist's processes share one path, and the last to open it wins
        assert "a line of the worker" not in log
    if "-n1" not in run.args:
        assert "a line of the session" in log
        assert "pytest_sessionfinish" in (run.folder / "debug.log").read_text()


def test_the_cache_has_the_failures_of_the_session(run):
    cache = run.folder / ".pytest_cache" / "v" / "cache"

    assert json.loads((cache / "lastfailed").read_text()) == {"test_budgets.py::test_over": True}
    if "-n1" not in run.args:
        assert len(json.loads((cache / "nodeids").read_text())) == 4


HANGS = """
    import os
    from pathlib import Path

    import pytest
    @pytest.mark.mem_budget(gib=1)
    def test_hangs():
        Path("pid").write_text(str(os.getpid()))
        while True:
            pass
    """


#: The worker has not begun to answer.
IMPORTS = """
    import os
    import sys
    import time
    from pathlib import Path

    import pytest
    if any("pytest_membudget.worker" in text for text in sys.orig_argv):
        Path("pid").write_text(str(os.getpid()))
        time.sleep(2)
    @pytest.mark.mem_budget(gib=1)
    def test_empty():
        pass
    """


@pytest.mark.usefixtures("warm_processes")
@pytest.mark.parametrize(
    ("text", "number"),
    [(HANGS, signal.SIGINT), (HANGS, signal.SIGTERM), (HANGS, signal.SIGKILL), (IMPORTS, signal.SIGKILL)],
)
def test_an_interrupted_session_leaves_no_process_and_no_folder_behind(tmp_path, write_all, text, number):
    write_all(tmp_path, {"test_budgets.py": text})
    command = [sys.executable, "-m", "pytest", "--membudget"]
    env = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    (tmp_path / "temporary").mkdir()
    session = subprocess.Popen(
        command, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    pid = int(_when(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), 60))

    session.send_signal(number)
    session.wait(30)

    assert _when(lambda: not _is_there(pid), 20)
    assert _when(lambda: not list((tmp_path / "temporary").glob("membudget-*")), 20)


def _when(condition, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    return condition()


def _is_there(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
