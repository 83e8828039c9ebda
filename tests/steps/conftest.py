"""Data and models that the tests of more than one step take."""

import pytest
import torch
from tiny_models import VOCABULARY


@pytest.fixture(autouse=True)
def _same_draws():
    torch.manual_seed(0)


@pytest.fixture
def data():
    return torch.randn(8, 3), torch.randn(8, 1)


@pytest.fixture
def tokens():
    return torch.randint(0, VOCABULARY, (2, 9))
