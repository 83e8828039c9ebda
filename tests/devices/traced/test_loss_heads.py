"""Losses by themselves, to the byte.

The figures: linkedin/Liger-Kernel, benchmark/data/all_benchmark_data.csv (0.2.1, A100, PyTorch's own cross
entropy, batch 8 of 2,048 tokens, fp32, forward and backward again and again on one input), in MiB and good
to 1 KiB up to 16,384 MiB: published as numbers of fp32.
"""

import pytest
import torch

ROWS = 8 * 2048


def repeated_cross_entropy(vocab, times):
    logits = torch.randn(ROWS, vocab, requires_grad=True, device="cuda")
    targets = torch.randint(vocab, (ROWS, 1), device="cuda").squeeze(1)
    loss = torch.nn.CrossEntropyLoss()
    for _ in range(times):
        y = loss(logits, targets)
        y.backward()


def held_bytes(vocab, copies):
    """Copies of the logits, the targets, and two blocks of 512 bytes: the loss and its total weight."""
    return copies * ROWS * vocab * 4 + 8 * ROWS + 2 * 512


@pytest.mark.parametrize("vocab", [100, 4096, 8192, 16384, 32768, 65536, 131072])
def test_a_repeated_cross_entropy_holds_five_copies_of_its_logits(trace, vocab):
    """Logits, log-probabilities, the gradient of each, and the gradient that the input has kept."""
    traced = trace(repeated_cross_entropy, vocab, 3)

    assert traced.allocated == held_bytes(vocab, copies=5)


def test_the_first_cross_entropy_holds_four(trace):
    """No gradient is kept yet."""
    assert trace(repeated_cross_entropy, 4096, 1).allocated == held_bytes(4096, copies=4)


@pytest.mark.parametrize(
    ("vocab", "mib"), [(4096, 1280.1259765625), (8192, 2560.1259765625), (16384, 5120.1259765625)]
)
def test_cross_entropy_is_the_published_figure(trace, vocab, mib):
    assert trace(repeated_cross_entropy, vocab, 3).allocated == mib * 2**20
