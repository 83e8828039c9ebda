"""Which of a library's device code a card would load: CUB has tunings for what was compiled alone."""

import pytest


def sorted_for_an_embedding():
    """Over 3,072 indices are sorted by CUB (embedding_dense_backward_cuda, native/cuda/Embedding.cu)."""
    import torch

    table = torch.nn.Embedding(32_000, 16, device="cuda")
    table(torch.randint(0, 32_000, (4, 2048), device="cuda")).sum().backward()
    capability = torch.cuda.get_device_capability()
    compiled_for = f"sm_{capability[0]}{capability[1]}" in torch.cuda.get_arch_list()
    return [table.weight.grad.shape[0], compiled_for]


@pytest.mark.parametrize(
    ("gpu", "has_own_code"), [("RTX-4090", False), ("L4", False), ("A6000", True), ("H100-80GB", True)]
)
def test_cards_that_nothing_was_compiled_for_sort_by_the_code_that_they_can_load(stand_in, gpu, has_own_code):
    """PyTorch's wheels have no code for 8.9 (torch.cuda.get_arch_list()): such a card runs what 8.6 has."""
    assert stand_in(sorted_for_an_embedding, gpu=gpu) == [32_000, has_own_code]
