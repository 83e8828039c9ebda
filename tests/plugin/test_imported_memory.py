"""What is on the device when a test begins is its own file's, whatever ran before; cards have their size."""

import re

import pytest

MIB = 2**20

FILES = {
    "conftest.py": """
        import torch

        DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

        def hold(mib, device="cuda"):
            return torch.empty(mib * 2**20, dtype=torch.uint8, device=device)
        """,
    "test_first.py": """
        import pytest
        from conftest import DEVICE, hold

        TABLE = hold(64, DEVICE)
        LEAKED = []

        @pytest.mark.mem_budget(gib=1)
        def test_leaks():
            LEAKED.append(hold(128))

        @pytest.mark.mem_budget(gib=1)
        def test_after_the_leak():
            assert not LEAKED
            hold(128)
        """,
    "test_second.py": """
        import pytest
        import torch
        from conftest import DEVICE, hold

        TABLE = hold(32, DEVICE)

        @pytest.mark.mem_budget(gib=1)
        def test_in_the_second_file():
            hold(128, DEVICE)

        @pytest.mark.mem_budget(gpu="RTX-4090")
        def test_too_large_for_the_card():
            weights = hold(20 * 1024)
            scores = torch.zeros(8 * 1024, 2**20, dtype=torch.uint8, device="cuda")

        @pytest.mark.mem_budget(gpu="RTX-4090", gib=4)
        def test_catches_it():
            try:
                hold(40 * 1024)
            except torch.OutOfMemoryError:
                hold(128)
        """,
}


@pytest.mark.parametrize(
    ("name", "mib"),
    [
        ("test_leaks", 64 + 128),
        ("test_after_the_leak", 64 + 128),
        ("test_in_the_second_file", 32 + 128),
    ],
)
def test_a_test_has_the_memory_of_its_own_file_and_of_no_other_test(run, name, mib):
    assert run.outcomes[name] == "passed", run.out
    assert run.allocated(name) == mib * MIB


def test_what_does_not_fit_on_the_card_is_over(run):
    assert run.outcomes["test_too_large_for_the_card"] == "failed"
    assert run.rows["test_too_large_for_the_card"]["verdict"] == "over"


def test_out_of_memory_names_size_and_line_and_what_was_alive(run):
    text = run.text("test_too_large_for_the_card")

    first = text.splitlines()[0]
    assert first.startswith("does not fit on RTX-4090: ")
    assert "8.00 GiB" in first
    # PyTorch's own text
    assert "CUDA out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total capacity of 23.64 GiB" in first
    assert first.endswith("at test_second.py:14")
    # the 32 MiB of the import as well
    assert re.search(r"^  20\.03 GiB  inputs x2\n      conftest\.py:6 ", text, re.MULTILINE)


def test_out_of_memory_that_the_test_survives_is_no_failure(run):
    assert run.outcomes["test_catches_it"] == "passed"
    assert run.allocated("test_catches_it") == (32 + 128) * MIB
