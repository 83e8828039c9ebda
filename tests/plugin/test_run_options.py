"""The gate under other options, configurations, folders and ways to start pytest."""

import os
import subprocess
import sys
import textwrap

import pytest

BUDGETS = """
    import pytest
    from holding import hold

    @pytest.mark.mem_budget(gib=1)
    def test_within():
        hold(0.5)

    @pytest.mark.xdist_group("together")
    @pytest.mark.mem_budget(gib=1)
    def test_over():
        hold(2)
    """
#: pytest-xdist knows this mark by itself
GROUPS = """
    def pytest_configure(config):
        config.addinivalue_line("markers", "xdist_group(name): runs with its group")
    """
BOTH = {"test_within": "passed", "test_over": "failed"}
FILES = {
    "inner/test_budgets.py": BUDGETS,
    "conftest.py": "import helper_at_the_root\n" + textwrap.dedent(GROUPS),
    "helper_at_the_root.py": "",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, write_all):
    path = tmp_path_factory.mktemp("project")
    write_all(path, FILES)
    return path


@pytest.mark.parametrize(
    "args",
    [
        ("-pno:cacheprovider", "-pno:faulthandler", "-pno:logging", "-pno:warnings", "-s"),
        ("-pno:skipping", "-pno:threadexception", "-Werror", "-ostrict=true", "--import-mode=importlib"),
        ("-n2", "--dist=loadgroup", "-p", "no:terminal", "--capture=sys"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_the_gate_works_with(in_folder, folder, args):
    run = in_folder(folder, "--membudget", "--membudget-report=membudget", *args)

    # before pytest 9.2, pytest-xdist writes the group's name behind the test's, for itself
    assert {name.partition("@")[0]: outcome for name, outcome in run.outcomes.items()} == BOTH, run.out
    assert set(run.rows) == set(BOTH)
    assert run.status == 1
    assert "INTERNALERROR" not in run.out + run.err


def test_options_in_the_configuration_are_as_good_as_on_the_command_line(session_of):
    pyproject = """
        [tool.pytest.ini_options]
        addopts = "--membudget -n2 --dist=loadscope --strict-markers"
        filterwarnings = ["error"]
        xfail_strict = true
        """
    run = session_of({**FILES, "pyproject.toml": pyproject})

    assert run.outcomes == BOTH, run.out
    assert set(run.rows) == set(BOTH)


def test_the_pytest_command_in_a_subfolder_is_as_good_as_the_module_at_the_root(folder):
    command = [
        os.path.join(os.path.dirname(sys.executable), "pytest"),
        "-p",
        "membudget",
        "--membudget",
        "-v",
    ]
    if not os.path.exists(command[0]):
        pytest.skip("pytest is installed without its command")

    wide = {**os.environ, "COLUMNS": "200"}  # else the table shows the end of the name alone
    done = subprocess.run(
        command, cwd=folder / "inner", env=wide, capture_output=True, text=True, check=False
    )

    assert "inner/test_budgets.py::test_within" in done.stdout
    assert "1 failed, 1 passed" in done.stdout


def test_the_plugin_may_be_named_in_the_environment_and_the_root_be_elsewhere(in_folder, folder, tmp_path):
    env = {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "-p pytest_membudget.plugin --membudget -q",
    }

    run = in_folder(tmp_path, f"--rootdir={tmp_path}", str(folder / "inner"), "-c", os.devnull, env=env)

    assert run.outcomes == BOTH, run.out
    assert "1.00 GiB over its budget of 1 GiB" in run.lines


def test_a_gate_that_is_blocked_is_no_gate(in_folder, folder):
    run = in_folder(folder, "--membudget", "-p", "no:membudget-gate")

    assert run.status == 4
    assert "no:membudget-gate" in run.err
