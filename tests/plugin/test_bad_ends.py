"""Sessions that are interrupted, cut short, beside each other or without what they need: none turns green."""

import json
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from textwrap import dedent

import pytest

from pytest_membudget.devices.torch_build.build import environments_torch

#: In place of workers, so that a session takes a second: each test's figure is 1 GiB.
GIVEN = """
    from pytest_membudget.testing import GivenEstimates, interrupted, takes

    def pytest_membudget_estimates():
        names = ["test_first", "test_later", *(f"test_over[{number}]" for number in range(8))]
        given = {name: takes(1) for name in names} | {"test_interrupted": interrupted()}
        return GivenEstimates({f"test_it.py::{name}": one for name, one in given.items()})
    """
ASKED = ("-p", "pytest_membudget.testing", "--membudget")
BUDGETS = """
    import pytest

    @pytest.mark.mem_budget(gib=2)
    def test_first(): ...

    @pytest.mark.mem_budget(gib=2)
    def test_interrupted(): ...

    @pytest.mark.mem_budget(gib=2)
    def test_later(): ...
    """
OVER = """
    import pytest

    @pytest.mark.parametrize("number", range(8))
    @pytest.mark.mem_budget(gib=0.5)
    def test_over(number): ...
    """


def test_an_interrupted_session_keeps_what_was_estimated_before(session_of):
    run = session_of({"conftest.py": GIVEN, "test_it.py": BUDGETS}, *ASKED)

    assert run.status == pytest.ExitCode.INTERRUPTED
    assert [row["verdict"] for row in run.rows.values()] == ["within"]
    assert run.rows["test_first"]["estimates"][0]["peak"]["allocated"] == 2**30
    assert any(line.startswith("1 estimated (1 within, 0 over)") for line in run.summary)
    assert any(line.endswith("3 not run") for line in run.summary)
    names = ", ".join(f"test_it.py::{name}" for name in ("test_first", "test_interrupted", "test_later"))
    assert f"interrupted: not finished: {names}" in run.lines


SIGTERM = """
    import os
    import signal

    def pytest_runtest_logstart(nodeid):
        if nodeid.endswith("test_later"):
            os.kill(os.getpid(), signal.SIGTERM)
    """


def test_a_job_that_is_cancelled_leaves_the_report_of_what_has_finished(session_of):
    tests = BUDGETS.replace("test_interrupted", "test_second").replace("gib=2", "gib=0.5")
    given = GIVEN.replace("interrupted()", "takes(1)").replace("test_interrupted", "test_second")

    run = session_of({"conftest.py": dedent(given) + dedent(SIGTERM), "test_it.py": tests}, *ASKED)

    assert run.status == pytest.ExitCode.INTERRUPTED
    assert list(run.outcomes.values()) == ["failed", "failed"]
    assert "interrupted: not finished: test_it.py::test_later" in run.lines
    assert run.rows["test_second"]["verdict"] == "over"


@pytest.mark.parametrize(
    ("args", "failed"),
    [(("--maxfail=3",), 3), (("-x", "-p", "no:cacheprovider"), 1), (("-n4",), 8)],
    ids=["maxfail", "exitfirst", "four processes"],
)
def test_sessions_that_stop_early_or_are_shared_are_red_and_count_the_rest(session_of, args, failed):
    if "-n4" in args:
        pytest.importorskip("xdist")
    run = session_of({"conftest.py": GIVEN, "test_it.py": OVER}, *ASKED, *args)

    assert run.status == 1, run.out
    assert list(run.outcomes.values()) == ["failed"] * failed
    assert len(run.rows) == 8
    assert any("8 estimated (0 within, 8 over)" in line for line in run.summary)
    if failed < 8:
        assert any(line.endswith(f"{8 - failed} not run") for line in run.summary)
        assert sum(line.endswith("over (not run)") for line in run.summary) == 8 - failed


@pytest.mark.usefixtures("warm_processes")
def test_two_sessions_at_once_in_one_folder_do_not_mix(tmp_path, write_all):
    body = """
        import pytest
        from holding import hold

        @pytest.mark.mem_budget(gib=1)
        @pytest.mark.parametrize("mib", [256, 512, 2048])
        def test_it(mib):
            kept = hold(mib / 1024)
        """
    settings = "[tool.membudget]\nsnapshots = 'all'\n"
    write_all(tmp_path, {"test_it.py": body, "pyproject.toml": settings})
    command = [sys.executable, "-m", "pytest", "--membudget", "--membudget-report=rep", "-v"]
    sessions = [
        subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(2)
    ]
    outs = [session.communicate(timeout=180)[0] for session in sessions]

    for session, out in zip(sessions, outs, strict=True):
        assert session.returncode == 1, out
        assert "3 estimated (2 within, 1 over" in out
        assert "could not be" not in out
    rows = json.loads((tmp_path / "rep" / "report.json").read_text())["tests"]
    peaks = [row["estimates"][0]["peak"]["allocated"] // 2**20 for row in rows]
    assert peaks == [256, 512, 2048]
    assert len(list((tmp_path / "rep").iterdir())) == 2
    assert len(list((tmp_path / "rep" / "snapshots").iterdir())) == 3


def test_a_torch_that_lacks_parts_fails_each_budget_with_what_to_install(session_of, tmp_path):
    version = environments_torch().public_version
    (tmp_path / "torch/lib").mkdir(parents=True)
    (tmp_path / "torch/__init__.py").write_text(f"__version__ = '{version}+git1'")
    (tmp_path / "torch/version.py").write_text(f"__version__ = '{version}+git1'\ncuda = '13.0'\n")
    (tmp_path / f"torch/_C{EXTENSION_SUFFIXES[0]}").touch()
    files = {
        "test_it.py": """
            import pytest

            @pytest.mark.mem_budget(gib=1)
            def test_it(): ...

            def test_plain(): ...
            """,
    }

    run = session_of(files, "--membudget", env={"MEMBUDGET_TORCH": str(tmp_path)})

    assert run.outcomes == {"test_it": "failed", "test_plain": "passed"}, run.out
    said = f"torch {version}+git1 is not a torch that the stand-in was made for: it has no "
    assert run.text("test_it").startswith(said)
    assert "nstall" in run.text("test_it")
    assert "Traceback" not in run.text("test_it")


@pytest.mark.parametrize(
    ("args", "ini", "status", "said"),
    [
        (("--membudget",), "", 4, "unrecognized arguments: --membudget"),
        ((), 'addopts = "--membudget"', 4, "unrecognized arguments: --membudget"),
        (("--strict-markers",), "", 2, "'mem_budget' not found in `markers` configuration option"),
        ((), "strict = true", 2, "'mem_budget' not found in `markers` configuration option"),
        ((), 'filterwarnings = ["error"]', 2, "Unknown pytest.mark.mem_budget"),
    ],
)
def test_without_the_plugin_nothing_turns_green(session_of, args, ini, status, said):
    if "strict =" in ini and pytest.version_tuple < (9,):
        pytest.skip("this pytest has no strict mode")
    files = {
        "test_it.py": "import pytest\n@pytest.mark.mem_budget(gib=1)\ndef test_it(): ...\n",
        "pyproject.toml": f"[tool.pytest.ini_options]\n{ini}\n",
    }

    run = session_of(files, "-p", "no:membudget", *args, report=False)

    assert run.status == status
    assert said in run.out + run.err
