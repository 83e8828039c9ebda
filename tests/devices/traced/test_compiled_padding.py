"""Products of odd sizes in compiled code: whether they are padded is timed on the card, and not here."""

import torch


def odd_product():
    first = torch.ones(2056, 1280, dtype=torch.bfloat16, device="cuda", requires_grad=True)
    second = torch.ones(1280, 1001, dtype=torch.bfloat16, device="cuda", requires_grad=True)
    torch.compile(lambda one, other: torch.relu(one @ other).sum())(first, second).backward()
    return list(second.grad.shape)


def test_products_of_odd_sizes_are_compiled(trace):
    traced = trace(odd_product, gpu="RTX-4080")

    assert traced.value == [1280, 1001]
    assert not any("as eager code" in text for text in traced.report.not_modelled)
