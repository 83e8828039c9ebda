"""A user's session never measures on the stand-in, though its libraries are loaded."""

import pytest

pytestmark = pytest.mark.slow

BODY = {
    "test_budgets.py": """
        import pytest
        from holding import hold

        @pytest.mark.mem_budget(gib=1)
        def test_holds():
            kept = hold(0.5)
        """
}


def test_libraries_that_are_loaded_by_accident_are_not_measured_on(session_of, on_cards):
    run = session_of(BODY, "--membudget", env=on_cards())
    row = run.rows["test_holds"]

    assert run.outcomes["test_holds"] == "passed"
    assert row["measurements"] == []
    reason = "no CUDA: LD_PRELOAD has libmembudget_stand_in.so, a stand-in for CUDA"
    assert row["not_measured"] == reason


def no_device():
    from pytest_membudget.devices.real.device import made_for
    from pytest_membudget.errors import UsageMistake

    with pytest.raises(UsageMistake) as refusal:
        made_for(None)
    return str(refusal.value)


def test_a_worker_on_cuda_refuses_them_however_they_were_loaded(stand_in):
    assert stand_in(no_device) == "the stand-in's libraries are loaded: unset LD_PRELOAD to measure"
