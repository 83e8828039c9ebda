"""Work of a stream that nobody has waited for may not be done: the run with other answers takes it so."""

import pytest

BODIES = """
    import pytest
    import torch
    from holding import hold

    budget = pytest.mark.mem_budget(gib=0.1, metric="reserved")

    def used_by_another_stream():
        stream, x = torch.cuda.Stream(), hold(1 / 16)
        with torch.cuda.stream(stream):
            torch.cuda._sleep(10**10)
        x.record_stream(stream)
        return stream

    @budget
    def test_a_block_of_a_stream_that_is_behind():
        used_by_another_stream()
        hold(1 / 16)

    @budget
    def test_a_block_of_a_stream_that_was_waited_for():
        used_by_another_stream().synchronize()
        hold(1 / 16)

    @budget
    def test_an_event_that_decides():
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(10**10)
        kept = hold(1 / 64 if stream.record_event().query() else 1 / 8)
    """
MIB = 2**20


@pytest.fixture(scope="module")
def run(session_of):
    return session_of({"test_budgets.py": BODIES}, "--membudget")


@pytest.mark.parametrize(
    ("name", "mib"), [("a_block_of_a_stream_that_is_behind", 128), ("an_event_that_decides", 128)]
)
def test_the_figure_is_that_of_the_stream_that_is_behind(run, name, mib):
    [estimate] = run.rows[f"test_{name}"]["estimates"]

    assert estimate["peak"]["reserved_bytes"] == mib * MIB
    assert [caveat["kind"] for caveat in estimate["caveats"]] == ["depends"]
    assert run.outcomes[f"test_{name}"] == "failed"
    assert "memory that another stream uses is free only when that is known to be done" in (
        run.text(f"test_{name}").replace("\n    ", " ")
    )


def test_a_body_that_waits_is_run_once(run):
    [estimate] = run.rows["test_a_block_of_a_stream_that_was_waited_for"]["estimates"]

    assert estimate["peak"]["reserved_bytes"] == 64 * MIB
    assert (estimate["caveats"], estimate["variants"]) == ([], [])
