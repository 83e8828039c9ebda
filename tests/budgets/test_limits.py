"""What limits the metric of a budget: its own figure, or the card that it names."""

from pytest_membudget.budgets.budget import Budget, capacity_of, limit_of
from pytest_membudget.hardware.gpus import find_gpu


def test_a_card_holds_all_of_its_memory_with_the_context_in_it_and_less_without():
    card = find_gpu("H100-80GB")

    assert capacity_of(Budget(gpu="H100-80GB", metric="device")) == card.total_bytes
    assert capacity_of(Budget(gpu="H100-80GB")) == card.total_bytes - card.context_bytes
    assert capacity_of(Budget(gpu="H100-80GB", metric="reserved")) == card.total_bytes - card.context_bytes


def test_without_a_card_there_is_no_capacity():
    assert capacity_of(Budget(gib=2)) is None


def test_the_figure_of_a_budget_limits_before_its_card_does():
    assert limit_of(Budget(gib=2, gpu="H100-80GB")) == 2 * 1024**3
    assert limit_of(Budget(gpu="H100-80GB")) == capacity_of(Budget(gpu="H100-80GB"))
    assert limit_of(Budget(components={"activations": 1})) is None
