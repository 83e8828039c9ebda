"""Without --membudget the plugin costs nothing and a marked test is skipped, with the reason."""

import pytest

FILES = {
    "conftest.py": """
        import sys

        HEAVY = ("torch", "yaml", "numpy")

        def pytest_sessionfinish(session):
            print("heavy:", [name for name in HEAVY if name in sys.modules])
        """,
    "test_budgets.py": """
        import unittest

        import pytest

        @pytest.mark.mem_budget(gib=1)
        def test_marked():
            raise AssertionError("the body ran")

        @pytest.mark.mem_budget("far too much", gig=1)
        def test_malformed():
            raise AssertionError("the body ran")

        @pytest.mark.xfail(strict=True)
        @pytest.mark.mem_budget(gib=1)
        def test_expected_to_fail():
            raise AssertionError("the body ran")

        @pytest.mark.mem_budget(gib=1)
        class TestClass:
            def test_method(self):
                raise AssertionError("the body ran")

        @pytest.mark.mem_budget(gib=1)
        class TestUnit(unittest.TestCase):
            @classmethod
            def setUpClass(cls):
                raise AssertionError("the class was set up")

            def test_unit(self):
                raise AssertionError("the body ran")

        def test_unmarked():
            pass
        """,
}
MARKED = ("test_marked", "test_malformed", "test_expected_to_fail", "test_method", "test_unit")


@pytest.fixture(scope="module")
def run(session_of, both_ways):
    asked = ("-rs", "-s", "--strict-markers", "--strict-config", *both_ways)
    return session_of(FILES, *asked, is_cold=True)


def test_marked_tests_are_skipped_however_they_are_marked(run):
    assert {name: run.outcomes[name] for name in MARKED} == dict.fromkeys(MARKED, "skipped"), run.out


def test_the_reason_says_how_to_check_the_budget(run):
    assert all("run pytest with --membudget" in run.message(name) for name in MARKED), run.out


def test_unmarked_tests_run(run):
    assert run.outcomes["test_unmarked"] == "passed"
    assert run.status == 0


def test_there_is_no_section_and_no_report(run):
    assert "membudget: GPU memory budgets" not in run.out
    assert not list(run.folder.glob("**/report.json"))


def test_nothing_heavy_is_imported(run):
    assert "heavy: []" in run.out


def test_the_marker_is_listed_with_its_arguments(pytester):
    result = pytester.runpytest_subprocess("--markers")

    result.stdout.fnmatch_lines(["@pytest.mark.mem_budget(*, gib=None, gpus=1, gpu=None, *"])
