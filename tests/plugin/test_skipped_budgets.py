"""A skipped budget is neither green nor silent: the summary counts it and says what to do."""

import pytest

from tests.plugin.bodies import source
from tests.report_fixtures import caveat_texts

HEAD = """\
import unittest

import pytest
import torch
from holding import hold

budget = pytest.mark.mem_budget(gib=1)

class TestParts(unittest.TestCase):
    @budget
    def test_parts(self):
        kept = torch.empty(2**20, dtype=torch.uint8, device="cuda")
        for size in (1, 2):
            with self.subTest(size=size):
                if size == 2:
                    self.skipTest("no weights here")

"""
SMALL, TOO_LARGE = "hold(1 / 256)", "kept = hold(2)\npytest.skip('too large for CI')"
BODIES = {
    **dict.fromkeys(["skip", "skipif", "skipif_as_text"], "raise AssertionError"),
    **dict.fromkeys(
        ["guarded_by_a_hook", "guard_that_does_not_apply", "skipped_where_cuda_is", "checked"], SMALL
    ),
    "skip_in_the_body": f"{SMALL}\npytest.skip('no weights here')",
    "importorskip_in_the_body": "pytest.importorskip('a_module_that_nobody_has')",
    **dict.fromkeys(["over", "over_on_two_ranks", "within_and_skips_itself"], TOO_LARGE),
}
MARKS = {
    "skip": "pytest.mark.skip(reason='later')\n@budget",
    "skipif": "pytest.mark.skipif(not torch.cuda.is_available(), reason='needs CUDA')\n@budget",
    "skipif_as_text": "pytest.mark.skipif('not torch.cuda.is_available()', reason='CUDA too')\n@budget",
    "guarded_by_a_hook": "pytest.mark.gpu\n@budget",
    "guard_that_does_not_apply": "pytest.mark.skipif(False, reason='does not apply')\n@budget",
    "skipped_where_cuda_is": "pytest.mark.skipif(torch.cuda.is_available(), reason='for CPUs')\n@budget",
    "over_on_two_ranks": "pytest.mark.mem_budget(gib=1, gpus=2)",
    "within_and_skips_itself": "pytest.mark.mem_budget(gib=3)",
}
FILES = {
    "conftest.py": """
        import pytest
        import torch

        def pytest_runtest_setup(item):
            if item.get_closest_marker("gpu") and not torch.cuda.is_available():
                pytest.skip("no GPU here")

        def pytest_configure(config):
            config.addinivalue_line("markers", "gpu: needs one")
        """,
    "nested/conftest.py": """
        import pytest
        import torch

        def pytest_runtest_setup(item):
            if not torch.cuda.is_available():
                pytest.skip("no GPU here either")
        """,
    "nested/test_nested.py": """
        import pytest

        @pytest.mark.mem_budget(gib=1)
        def test_skipped_by_a_hook():
            raise AssertionError
        """,
    "test_budgets.py": source(BODIES, HEAD, MARKS),
    "test_whole_file.py": """
        import pytest
        import torch

        if not torch.cuda.is_available():
            pytest.skip("the whole file needs CUDA", allow_module_level=True)

        @pytest.mark.mem_budget(gib=1)
        def test_in_a_skipped_file():
            raise AssertionError
        """,
    "test_without_budgets.py": """
        import pytest

        pytest.skip("not of interest", allow_module_level=True)
        """,
}
SKIPPED_HERE = ("test_skipif", "test_skipif_as_text", "test_skipped_by_a_hook")
SKIPPED_THERE = {
    "test_skipped_where_cuda_is": "for CPUs",
    "test_skip_in_the_body": "no weights here",
    "test_importorskip_in_the_body": "a_module_that_nobody_has",
    "test_within_and_skips_itself": "too large for CI",
}


ARGS = ("--membudget", "-rs")


def unchecked(run, name):
    lines = [line for line in run.summary if f"::{name}: " in line and line.startswith("unchecked: ")]
    assert len(lines) == 1, run.out
    return lines[0]


@pytest.mark.parametrize("name", ["test_skip", *SKIPPED_HERE, *SKIPPED_THERE])
def test_a_skipped_test_is_reported_as_skipped_and_listed_as_unchecked(run, name):
    assert run.outcomes[name] == "skipped", run.out
    assert unchecked(run, name)
    assert run.rows[name]["verdict"] == "skipped"


@pytest.mark.parametrize("name", SKIPPED_HERE)
def test_a_guard_for_a_gpu_gets_the_advice_to_leave_it_out(run, name):
    assert "torch.cuda.is_available() is True" in unchecked(run, name)


@pytest.mark.parametrize(("name", "reason"), SKIPPED_THERE.items())
def test_a_skip_on_the_stand_in_is_reported_with_its_reason(run, name, reason):
    assert "skipped on the stand-in: " in unchecked(run, name)
    assert reason in unchecked(run, name)


def test_a_skip_on_the_stand_in_is_placed_at_the_mark(run):
    assert any(line.startswith("SKIPPED [1] test_budgets.py:") and "no weights" in line for line in run.lines)


def test_a_file_that_skips_itself_and_has_budgets_is_reported(run):
    lines = [line for line in run.summary if line.startswith("unchecked: test_whole_file.py: ")]

    assert len(lines) == 1
    assert "the whole file needs CUDA" in lines[0]
    assert not any("test_without_budgets" in line for line in run.summary)


def test_the_others_are_checked(run):
    assert run.outcomes["test_guard_that_does_not_apply"] == "passed"
    assert run.outcomes["test_guarded_by_a_hook"] == "passed"  # the hook finds CUDA where the test runs
    assert run.outcomes["test_checked"] == "passed"


def test_a_test_that_skips_itself_when_it_is_over_its_budget_is_over(run):
    over = "1.00 GiB over its budget of 1 GiB, before it skipped itself: too large for CI"
    assert run.message("test_over") == f"BudgetExceeded: {over}"
    assert run.message("test_over_on_two_ranks") == f"BudgetExceeded: rank 0 of 2: {over}"
    failed = {name for name, outcome in run.outcomes.items() if outcome == "failed"}
    assert failed == {"test_over", "test_over_on_two_ranks"}


def test_a_part_that_is_skipped_is_listed(run):
    """The figure is of the parts that ran."""
    if pytest.version_tuple < (9,):  # which has no subtests: all of the test is skipped
        assert run.outcomes["test_parts"] == run.rows["test_parts"]["verdict"] == "skipped", run.out
        return
    assert run.outcomes["test_parts"] == "passed", run.out
    (report,) = run.rows["test_parts"]["estimates"]
    (line,) = caveat_texts(report, missing=True)
    assert line == "a part of the test was skipped (no weights here): what it takes is not counted"
