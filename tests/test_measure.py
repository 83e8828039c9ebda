"""Why a card cannot measure a budget, in words."""

import pytest

from pytest_membudget.budget import Budget
from pytest_membudget.measure import _unfit

H100 = {"count": 1, "name": "NVIDIA H100 80GB HBM3", "total_bytes": 85_000_000_000}


@pytest.mark.parametrize(
    ("card", "budget", "said"),
    [
        ({"count": 0}, Budget(gib=1), "torch sees no device"),
        ({"outcome": "error", "reason": "it crashed\nhere"}, Budget(gib=1), "could not be asked: it crashed"),
        (H100, Budget(gib=1, gpus=2), "1 CUDA devices, and gpus=2"),
        (H100, Budget(gpu="H200"), "is smaller than gpu='H200'"),
    ],
)
def test_the_reason_is_told(card, budget, said):
    assert said in _unfit(card, budget)


def test_the_card_that_was_named_measures():
    assert _unfit(H100, Budget(gpu="H100-80GB")) is None
    assert _unfit(H100, Budget(gib=1)) is None
