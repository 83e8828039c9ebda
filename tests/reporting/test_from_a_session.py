"""A real report.json, alone and with pytest-xdist, goes through the command."""

import json

import pytest

from tests.programs import printed

FILES = {
    "test_budgets.py": """
        import pytest
        from holding import hold

        @pytest.mark.mem_budget(gib=1)
        def test_within():
            import torch

            model = torch.nn.Linear(512, 512, device="cuda")
            optimizer = torch.optim.SGD(model.parameters())
            model(torch.randn(8, 512, device="cuda")).sum().backward()
            optimizer.step()

        @pytest.mark.mem_budget(gib=1)
        def test_over():
            hold(1.5)

        @pytest.mark.xfail(strict=True)
        @pytest.mark.mem_budget(gib=1)
        def test_expected():
            hold(2)

        @pytest.mark.mem_budget(gib=1)
        def test_nothing():
            pass
        """
}


@pytest.fixture(scope="module")
def written(run):
    """``written("gitlab")`` is the report in a format."""
    command = ("-m", "pytest_membudget", "report", run.report_path)
    return lambda output_format: printed(*command, f"--format={output_format}", cwd=run.folder)


def test_what_is_expected_is_in_its_row(run):
    assert {name: row["expected"] for name, row in run.rows.items()} == {
        "test_within": False, "test_over": False, "test_expected": True, "test_nothing": False,
    }  # fmt: skip


def test_markdown_lists_failures_and_folds_the_rest(written):
    text = written("markdown")
    assert text.startswith("### GPU memory: 1 over budget, 1 not checked, of 4 tests\n")
    assert "Takes 1.50 GiB, 0.50 GiB over its budget of 1.00 GiB." in text
    assert "1 over budget (expected)" in text.partition("<details>")[2]


def test_annotations_are_at_the_marks(written):
    lines = written("github").splitlines()
    assert [line.partition(",title")[0] for line in lines] == [
        "::error file=test_budgets.py,line=13",
        "::error file=test_budgets.py,line=22",
    ]


def test_the_other_formats_have_their_tests(written):
    assert len(json.loads(written("gitlab"))) == 2
    assert written("terminal").splitlines()[-1].startswith("3 estimated (1 within, 2 over)")


def test_an_estimate_has_its_timeline_with_the_peak(run):
    estimate = run.rows["test_within"]["estimates"][0]
    timeline = estimate["timeline"]
    point = timeline["moments"].index(timeline["peak_moment"])
    at_peak = {name: sizes[point] for name, sizes in timeline["components"].items()}
    # weight and bias, float32; the batch and the gradients have the sizes of what they belong to
    assert at_peak["parameters"] == (512 * 512 + 512) * 4
    assert at_peak["inputs"] == 8 * 512 * 4
    assert sum(at_peak.values()) == estimate["peak"]["allocated"] - estimate["components"]["rounding"]
    assert [phase for _, phase in timeline["phases"]] == ["forward", "backward"]


def test_a_test_that_allocates_nothing_has_none(run):
    assert run.rows["test_nothing"]["estimates"][0]["timeline"] is None
