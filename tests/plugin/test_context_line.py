"""A report whose figure or limit rests on a card's CUDA context says what it was taken to be."""

import pytest

FILES = {
    "test_budgets.py": """
        import pytest
        from holding import hold

        @pytest.mark.mem_budget(gib=70, metric="device")
        def test_device():
            hold(0.5)

        @pytest.mark.mem_budget(gpu="RTX-4090")
        def test_card():
            hold(0.5)

        @pytest.mark.mem_budget(gib=1, gpu="L4", metric="device")
        def test_over():
            hold(2)

        @pytest.mark.mem_budget(gib=1)
        def test_plain():
            hold(0.5)
        """,
}


@pytest.fixture(scope="module")
def run(session_of):
    return session_of(FILES, "--membudget")


def assumptions_of(run, name):
    (estimate,) = run.rows[name]["estimates"]
    return estimate["assumptions"]


def test_a_device_total_says_what_its_context_was_taken_to_be(run):
    assert assumptions_of(run, "test_device") == [
        "CUDA context of H100-80GB taken to be 0.66 GiB (typical, not measured on this card)"
    ]


def test_a_named_cards_capacity_says_what_its_context_was_taken_to_be(run):
    (line,) = assumptions_of(run, "test_card")
    assert line.startswith("CUDA context of RTX-4090 taken to be 0.49 GiB (measured on this card")


def test_a_failure_shows_the_line_and_the_context_apart_from_the_allocators_figures(run):
    lines = run.text("test_over").splitlines()
    rows = [line.split()[0] for line in lines if line.startswith("  ") and line.endswith("%")]
    assert rows[-1] == "context"
    assert "nccl" not in rows  # one card: none
    assert "  CUDA context of L4 taken to be 0.23 GiB (measured on this card)" in lines


def test_allocated_memory_without_a_named_card_rests_on_no_context(run):
    assert assumptions_of(run, "test_plain") == []
