"""Budgets of code whose sizes depend on data: bounded, told, or failing with what to write instead."""

FILES = {
    "model.py": """
        import torch

        def positive(x):
            return x[x > 0]

        def spread(x, counts):
            return x.repeat_interleave(counts)
        """,
    "test_budgets.py": """
        import pytest
        import pytest_membudget

        def draw():
            import torch

            return torch.randn(2**26, device="cuda")  # 256 MiB

        @pytest.mark.mem_budget(gib=1)
        def test_bounded():
            from model import positive
            kept = positive(draw())

        @pytest.mark.mem_budget(gib=1)
        @pytest_membudget.assume(true_fraction=0.5)
        def test_assumed():
            from model import positive
            kept = positive(draw())

        @pytest.mark.mem_budget(gib=1)
        def test_unbounded():
            from model import spread
            x = draw()
            spread(x, x.long())

        @pytest.mark.mem_budget(gib=1)
        def test_caught():
            from model import spread
            x = draw()
            try:
                spread(x, x.long())
            except Exception:
                pass

        @pytest.mark.mem_budget(gib=1)
        def test_assumed_wrongly():
            with pytest_membudget.assume(true_fraction=15):
                draw()

        def test_without_a_budget():
            with pytest_membudget.assume(true_fraction=0.5, routing="balanced"):
                pass
        """,
}


def estimate_of(run, name):
    (estimate,) = run.rows[name]["estimates"]
    return estimate


def test_the_worst_case_is_held_to_the_budget_and_listed(run):
    """256 MiB of numbers, 64 of mask, 512 of positions, 256 of results."""
    assert run.outcomes["test_bounded"] == "failed"
    assert estimate_of(run, "test_bounded")["peak"]["allocated"] == (256 + 64 + 512 + 256) * 2**20
    assert "Taken for granted" in run.text("test_bounded")
    assert (
        "model.py:4 takes sizes from unknown data with aten.nonzero.default (once): taken to be true "
        "everywhere, the worst case (pytest_membudget.assume(true_fraction=...) changes that)"
    ) in run.text("test_bounded")


def test_what_is_assumed_counts(run):
    """Half as many positions and results."""
    assert run.outcomes["test_assumed"] == "passed"
    assert estimate_of(run, "test_assumed")["peak"]["allocated"] == (256 + 64 + 256 + 128) * 2**20


def test_what_has_no_bound_fails_with_line_operator_and_what_to_write(run):
    text = run.text("test_unbounded")
    assert run.outcomes["test_unbounded"] == "failed"
    assert "NotAvailable in call at test_budgets.py:24 " in text
    assert "what aten.repeat_interleave.Tensor gives depends on data" in text
    assert "with pytest_membudget.assume(repeats=2.0)" in text
    assert "model.py:7 in spread" in text


def test_a_test_that_goes_on_without_it_fails_too(run):
    assert run.outcomes["test_caught"] == "failed"
    text = run.text("test_caught")
    assert "model.py:7: the shape of what aten.repeat_interleave.Tensor gives depends on data" in text
    assert "which the test may have caught" in text


def test_a_mistake_fails_its_test(run):
    assert "ValueError in call at test_budgets.py:37" in run.text("test_assumed_wrongly")
    assert "write assume(true_fraction=0.15)" in run.text("test_assumed_wrongly")


def test_a_test_without_a_budget_runs_with_it(run):
    assert run.outcomes["test_without_a_budget"] == "passed"
