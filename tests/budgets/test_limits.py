"""What limits the metric of a budget: its own figure, or the card that it names."""

from pytest_membudget.budgets.budget import Budget
from pytest_membudget.hardware.gpus import find_gpu


def test_a_card_holds_all_of_its_memory_with_the_context_in_it_and_less_without():
    card = find_gpu("H100-80GB")

    assert Budget(gpu="H100-80GB", metric="device").capacity_bytes == card.total_bytes
    assert Budget(gpu="H100-80GB").capacity_bytes == card.total_bytes - card.context_bytes
    assert Budget(gpu="H100-80GB", metric="reserved").capacity_bytes == card.total_bytes - card.context_bytes


def test_without_a_card_there_is_no_capacity():
    assert Budget(gib=2).capacity_bytes is None


def test_the_figure_of_a_budget_limits_before_its_card_does():
    assert Budget(gib=2, gpu="H100-80GB").limit_bytes == 2 * 1024**3
    assert Budget(gpu="H100-80GB").limit_bytes == Budget(gpu="H100-80GB").capacity_bytes
    assert Budget(components={"activations": 1}).limit_bytes is None
