"""Experts' memory by the bodies of devices/fake/test_routing.py: figures by hand, but for the workspace."""

import pytest
from shared_bodies import of_fake_tensors

routing = of_fake_tensors("test_routing")["test_top_one_routing"].__globals__
T, E, K, D, H = (routing[name] for name in "TEKDH")
#: cuBLAS's on an A100, kept from torch 2.11 on to 2.13 and freed after each product later.
WORKSPACE_BYTES = 8519680


@pytest.mark.parametrize("told", routing["WAYS"])
def test_experts_together_save_each_token_as_often_as_it_was_sent(trace, told):
    """As there: x[token], the output and the weighted one, the hidden ones twice, the weight, two int64."""
    each = 4 * (3 * D + 2 * H + 1) + 2 * 8
    figure = T * K * each + 4 * T * D + 4 * T * E + 8 * T * K

    assert trace(routing["trained"], told).value in (figure, figure + WORKSPACE_BYTES)
