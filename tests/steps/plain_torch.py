"""What the steps are held against: PyTorch's own optimizer, divergence and comparison."""

import torch
import torch.nn.functional as F


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=0.05)


def parameters_of(model):
    return [parameter.detach().clone() for parameter in model.parameters()]


def assert_equal(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def by_hand(student, teacher, labels, temperature=1.0):
    """PyTorch's own divergence, over the positions picked by indexing."""
    student, teacher = (F.log_softmax(logits / temperature, -1) for logits in (student, teacher))
    return F.kl_div(student, teacher, reduction="none", log_target=True).sum(-1)[labels != -100].mean()
