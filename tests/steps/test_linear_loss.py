"""linear_cross_entropy is the cross entropy of a head's logits, without all logits at once."""

import pytest
import torch
import torch.nn.functional as F

from pytest_membudget.steps import linear_cross_entropy

VOCABULARY, FEATURES = 11, 5


@pytest.fixture
def inputs():
    """Hidden states, weight, bias, and labels of which two do not count."""
    labels = torch.randint(0, VOCABULARY, (2, 7))
    labels[0, :2] = -100
    sizes = ((2, 7, FEATURES), (VOCABULARY, FEATURES), (VOCABULARY,))
    return *(torch.randn(size, requires_grad=True) for size in sizes), labels


@pytest.mark.parametrize("chunks", [1, 3, 100])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_loss_and_gradients_are_pytorchs(inputs, chunks, reduction):
    hidden, weight, bias, labels = inputs
    logits = F.linear(hidden, weight, bias).flatten(0, 1)
    expected = F.cross_entropy(logits, labels.flatten(), reduction=reduction)
    gradients = torch.autograd.grad(expected, (hidden, weight, bias))

    found = linear_cross_entropy(hidden, weight, labels, linear_bias=bias, chunks=chunks, reduction=reduction)

    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(found, (hidden, weight, bias)), gradients)


@pytest.mark.parametrize("wrong", [{"chunks": 0}, {"reduction": "none"}])
def test_what_it_cannot_do_is_refused(inputs, wrong):
    hidden, weight, _, labels = inputs

    with pytest.raises(ValueError, match=rf"{next(iter(wrong))}="):
        linear_cross_entropy(hidden, weight, labels, **wrong)
