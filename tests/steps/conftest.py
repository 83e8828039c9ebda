"""Data and models that the tests of more than one step take."""

import pytest
import torch
from tiny_models import VOCABULARY, LanguageModel


@pytest.fixture(autouse=True)
def _same_draws():
    torch.manual_seed(0)


@pytest.fixture
def data():
    return torch.randn(8, 3), torch.randn(8, 1)


@pytest.fixture
def tokens():
    return torch.randint(0, VOCABULARY, (2, 9))


@pytest.fixture
def pair():
    """A student and a frozen teacher in eval mode."""
    return LanguageModel().eval(), LanguageModel().eval().requires_grad_(False)


@pytest.fixture
def llama():
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        initializer_range=0.5,  # logits far enough apart that rounding decides no argmax
    )
    return transformers.LlamaForCausalLM(config)
