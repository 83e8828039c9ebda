"""Decoding with a cache of keys and values: 2 x layers x 8 heads x width of a head x 2 bytes a token."""

import pytest

pytestmark = pytest.mark.filterwarnings("default")


# 8.03e9 x 2 = 15.0 GiB; the cache of 8 x 1,032 tokens, 128 KiB each: 1.0 GiB; 8,192 tokens through one layer
@pytest.mark.mem_budget(gib=18, gpu="H200")
def test_eight_sequences_of_an_8b_model():
    decoded("8b", 8, 1024)


# 1.24e9 x 2 = 2.3 GiB; 32 KiB a token, 16,392 tokens: 0.5 GiB; the long prompt's products
@pytest.mark.mem_budget(gib=5, gpu="H200")
def test_a_long_prompt_of_a_1b_model():
    decoded("1b", 1, 16_384)


def decoded(size, sequences, tokens):
    from gpu_models import batch, llama

    from pytest_membudget.steps import inference_step

    model = llama(size).eval()
    inference_step(model, batch(sequences, tokens)["input_ids"], new_tokens=8)
