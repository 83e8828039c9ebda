"""What estimates assume and leave out, and what ``--membudget-strict`` makes of it, kept estimates too."""

import pytest

FILES = {
    "test_budgets.py": """
        import subprocess, sys
        import pytest
        import torch
        import pytest_membudget

        budget = pytest.mark.mem_budget(gib=1)

        def hold(rows=2**10):
            return torch.ones(rows, 2**10, device="cuda")

        @budget
        def test_plain():
            hold()

        @budget
        def test_loss():
            loss = torch.randn(2**10, 2**10, device="cuda").mean()
            assert loss.item() is not None

        @budget
        def test_largest_size():
            x = torch.randn(2**10, device="cuda")
            hold()[x > 0]

        @budget
        def test_size():
            lengths = torch.randn(64, device="cuda").mul(100).long()
            hold(int(lengths.sum().item()) + 1)

        @budget
        def test_size_made_of_a_float():
            hold(int(torch.randn(64, device="cuda").mean().item() * 100) + 1)

        @budget
        def test_size_that_is_said():
            lengths = torch.randn(64, device="cuda").mul(100).long()
            with pytest_membudget.assume(value=64):
                hold(int(lengths.sum().item()) + 1)

        @budget
        def test_solver():
            torch.linalg.cholesky(torch.eye(64, device="cuda") + torch.randn(64, 64, device="cuda"))

        @budget
        def test_process():
            hold()
            subprocess.run([sys.executable, "-c", ""], check=True)

        @budget
        def test_tool():
            hold()
            subprocess.run(["uname"], check=True, capture_output=True)

        @budget
        def test_mean_that_is_read_by_an_if():
            if torch.randn(64, 64, device="cuda").mean() > 0:
                hold()
        """,
}
UNCHECKED = {
    *("test_size", "test_size_made_of_a_float", "test_mean_that_is_read_by_an_if"),
    *("test_solver", "test_process"),
}
KINDS = {
    "test_plain": set(),
    "test_loss": set(),
    "test_largest_size": {"worst-case"},
    "test_size": {"depends"},
    "test_size_made_of_a_float": {"depends"},
    "test_size_that_is_said": {"given"},
    "test_process": {"process"},
    "test_tool": {"tool"},
    "test_mean_that_is_read_by_an_if": {"depends"},
}


@pytest.fixture(scope="module")
def runs(session_of, tmp_path_factory):
    env = {"MEMBUDGET_CACHE_DIR": str(tmp_path_factory.mktemp("kept"))}
    lenient = session_of(FILES, "--membudget", env=env)
    folder = lenient.folder
    return lenient, session_of(FILES, "--membudget", "--membudget-strict", env=env), folder


def test_the_kinds_of_caveats(runs):
    lenient, _, _ = runs
    rows = lenient.rows
    found = {
        name: {one["cause"] for one in row["estimates"][0]["caveats"]} - {"operator"}
        for name, row in rows.items()
    }

    assert {name: found[name] for name in KINDS} == KINDS
    kinds = {one["kind"] for one in rows["test_solver"]["estimates"][0]["caveats"]}
    assert "missing" in kinds


def test_all_pass_without_it(runs):
    lenient, _, _ = runs

    assert set(lenient.outcomes.values()) == {"passed"}, lenient.out


def test_what_decides_a_size_and_what_is_missing_fails_with_it(runs):
    _, strict, _ = runs

    assert {name for name, outcome in strict.outcomes.items() if outcome == "failed"} == UNCHECKED


def test_the_figures_do_not_move(runs):
    lenient, strict, _ = runs

    def peaks(run):
        return {name: row["estimates"][0]["peak"] for name, row in run.rows.items()}

    assert peaks(lenient) == peaks(strict)
