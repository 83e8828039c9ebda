"""Given estimates are judged as a worker's are, and a session that uses them says that it checks nothing."""

import re
import textwrap
from pathlib import Path

import pytest

from pytest_membudget.errors import UsageMistake
from pytest_membudget.reporting.document import read_document
from pytest_membudget.testing import takes
from tests.report_fixtures import caveat_texts

REFERENCE = Path(__file__).parents[1] / "docs" / "reference.md"
CONFTEST = """
    import sys

    from pytest_membudget import testing

    def pytest_membudget_estimates():
        given = {
            "fits": testing.takes(1, activations=0.5),
            "large": testing.takes(3),
            "hungry": testing.takes(1, host_gib=5),
            "raises": testing.raises("ValueError: no such size"),
            "hangs": testing.times_out(20),
            "dies": testing.worker_dies(),
        }
        return testing.GivenEstimates(
            {f"test_it.py::test_{name}": one for name, one in given.items()},
            measured={"test_it.py::test_fits": testing.takes(1.5)},
        )

    def pytest_unconfigure(config):
        if not hasattr(config, "workerinput"):
            (config.rootpath / "torch").write_text(str("torch" in sys.modules))
    """
BUDGETS = """
    import pytest

    pytestmark = pytest.mark.mem_budget(gib=2)

    def test_fits(): ...
    def test_large(): ...
    @pytest.mark.mem_budget(host_gib=4)
    def test_hungry(): ...
    def test_raises(): ...
    def test_hangs(): ...
    def test_dies(): ...
    def test_forgotten(): ...
    """
FILES = {"conftest.py": CONFTEST, "test_it.py": BUDGETS}
ASKED = ("--membudget", "-p", "pytest_membudget.testing")


@pytest.fixture(scope="module")
def run(session_of, both_ways):
    return session_of(FILES, *ASKED, *both_ways, is_cold=True)


def test_what_is_given_is_judged(run):
    verdicts = {name.removeprefix("test_"): row["verdict"] for name, row in run.rows.items()}

    assert verdicts == {
        "fits": "within",
        "large": "over",
        "hungry": "over",
        **dict.fromkeys(("raises", "hangs", "dies", "forgotten"), "error"),
    }
    assert run.outcomes["test_fits"] == "passed"
    assert run.message("test_large") == "BudgetExceeded: 1.00 GiB over its budget of 2 GiB"
    assert "host memory 1.00 GiB over its budget of 4 GiB a machine" in run.message("test_hungry")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("raises", "ValueError: no such size"),
        (
            "hangs",
            "it did not finish within 20 s of processor time (the time limit is "
            "[tool.membudget] timeout, in seconds)",
        ),
        ("dies", "the worker was ended by signal 9 (SIGKILL)"),
        ("forgotten", "pytest_membudget.testing was given no estimate of test_it.py::test_forgotten"),
    ],
)
def test_what_has_no_figure_fails_with_its_reason(run, name, reason):
    assert run.message(f"test_{name}") == f"BudgetUnchecked: {reason}"


def test_a_measurement_is_given_too(run):
    row = run.rows["test_fits"]

    assert [one["peak"]["allocated"] for one in row["measurements"]] == [3 * 2**29]
    assert row["estimates"][0]["components"]["activations"] == 2**29
    assert row["estimates"][0]["components"]["inputs"] == 2**29


# Such a session does not look like one that has checked something


def test_the_header_and_the_summary_say_that_nothing_is_checked(run):
    said = "membudget: CHECKS NOTHING: all estimates are given by pytest_membudget.testing"

    assert run.lines.count(said) == 2
    assert said in run.summary


def test_report_json_says_so_and_is_refused_as_a_report(run):
    assert run.report["testing"] is True
    assert "given by pytest_membudget.testing" in caveat_texts(run.rows["test_fits"]["estimates"][0])[0]
    with pytest.raises(UsageMistake, match=r"testing: must be false: a test gave these figures"):
        read_document(run.report_path)


def test_the_junit_file_says_so(run):
    properties = run.cases["test_fits"].iter("property")

    assert ("membudget.testing", "given by pytest_membudget.testing: nothing was run") in {
        (one.get("name"), one.get("value")) for one in properties
    }


def test_without_its_name_on_the_command_line_nothing_is_given(session_of):
    left_over = session_of(FILES, "--membudget", "-k", "fits")

    assert "test_fits" not in left_over.outcomes
    assert left_over.status == pytest.ExitCode.INTERNAL_ERROR
    assert "pytest_membudget_estimates" in left_over.out + left_over.err


@pytest.mark.parametrize(
    "files",
    [
        {"pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-p pytest_membudget.testing"\n'},
        {"conftest.py": 'pytest_plugins = ["pytest_membudget.testing"]\n' + textwrap.dedent(CONFTEST)},
    ],
    ids=["in settings", "in a conftest"],
)
def test_its_name_elsewhere_is_refused(session_of, files):
    refused = session_of({**FILES, **files}, "--membudget", "-k", "fits")

    assert refused.status == pytest.ExitCode.USAGE_ERROR
    assert "name it on the command line (-p pytest_membudget.testing)" in refused.err
    assert refused.report is None


def test_its_name_alone_is_refused(session_of):
    refused = session_of({"test_it.py": BUDGETS}, *ASKED)

    assert refused.status == pytest.ExitCode.USAGE_ERROR
    assert "no estimates are given" in refused.err


def test_a_session_of_ordinary_estimates_is_none_of_these(session_of):
    files = {"test_it.py": "import pytest\n@pytest.mark.mem_budget(gib=0)\ndef test_it(): ...\n"}

    assert session_of(files, "--membudget").report["testing"] is False


# What users write


def test_an_unknown_component_is_refused():
    with pytest.raises(UsageMistake, match="no such component; write one of parameters"):
        takes(1, weights=1)


def test_no_torch_is_imported(run):
    assert (run.folder / "torch").read_text() == "False"


def test_the_example_of_the_reference_passes(pytester):
    section = REFERENCE.read_text(encoding="utf-8").partition("### Testing\n")[2].partition("\n## ")[0]
    conftest, test = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    pytester.makeconftest('pytest_plugins = ["pytester"]')
    pytester.makepyfile(test_my_conftest=f"CONFTEST = '''{conftest}'''\n{test}")

    pytester.runpytest_subprocess().assert_outcomes(passed=1)
