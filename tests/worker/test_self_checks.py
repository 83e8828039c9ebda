"""A torch whose figures are not those known by hand gives no estimate, whatever is asked for first."""

import os

import pytest

pytestmark = pytest.mark.slow

FILES = {
    "test_budgets.py": """
        import pytest, torch

        @pytest.mark.mem_budget(gib=1)
        def test_small():
            kept = torch.empty(2**20, device="cuda")

        @pytest.mark.mem_budget(gib=1)
        def test_other():
            kept = torch.empty(2**20, device="cuda")
        """,
}
#: Another torch, in the processes of workers: without foreach AdamW holds three temporaries, and not four.
OTHER_TORCH = """
    import sys

    if any("pytest_membudget" in argument for argument in sys.orig_argv):
        import torch

        original = torch.optim.AdamW.__init__

        def init(self, *args, **kwargs):
            original(self, *args, **{**kwargs, "foreach": False})

        torch.optim.AdamW.__init__ = init
    """


@pytest.fixture
def session(session_of, write_all, tmp_path):
    """A session that keeps its results in one folder; with ``other``, its workers' torch is another one."""
    write_all(tmp_path / "other", {"sitecustomize.py": OTHER_TORCH})
    (tmp_path / "kept" / "self-checks").mkdir(parents=True)  # torch has passed nothing yet
    folders = [str(tmp_path / "other"), os.environ.get("PYTHONPATH", "")]
    sets = f"import os\nos.environ['PYTHONPATH'] = {os.pathsep.join(filter(None, folders))!r}\n"

    def run(*, other=False):
        env = {"MEMBUDGET_CACHE_DIR": str(tmp_path / "kept")}
        files = FILES | ({"conftest.py": sets} if other else {})
        return session_of(files, "--membudget", "--membudget-cache=off", env=env)

    return run


PASSED = {"test_small": "passed", "test_other": "passed"}


def test_another_torch_fails_every_budget_and_what_has_passed_is_not_checked_again(session):
    """The tests' bodies use no optimizer: only the check can tell the two apart."""
    run = session(other=True)

    assert run.outcomes == {"test_small": "failed", "test_other": "failed"}, run.out
    for name in run.outcomes:
        assert "a step whose figures are known gave temporaries 201326592 instead of 268435456" in run.text(
            name
        )
    assert session().outcomes == PASSED  # a failure is not kept
    assert session(other=True).outcomes == PASSED
