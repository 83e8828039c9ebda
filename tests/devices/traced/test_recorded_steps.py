"""A traced step equals the history that a real GPU recorded.

The recording: silmont2000/assignment2-systems at 133f064, cs336_systems/trace_peak_memory.py, naive softmax
attention over Q, K, V of [8, 4096, 16] in fp32, forward and backward from an empty allocator. Its peaks, of
blocks and of segments: 3,098.626 and 3,606 MiB. It holds two cuBLAS workspaces to its end.
"""

import pytest
import torch

MIB = 2**20
RELEASE = tuple(map(int, torch.__version__.split(".")[:2]))


def naive_attention():
    query, key, value = (torch.randn(8, 4096, 16, device="cuda", requires_grad=True) for _ in range(3))
    output = attend(query, key, value)  # the recorded script keeps it, too
    output.sum().backward()


def attend(query, key, value):
    scores = torch.einsum("bqd,bkd->bqk", query, key) / 16**0.5
    exponentials = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)
    weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
    return torch.einsum("bqk,bkd->bqd", weights, value)


@pytest.mark.skipif(RELEASE >= (2, 15), reason="torch 2.15 keeps no cuBLAS workspaces: not the recorded run")
def test_naive_attention_from_an_empty_allocator(trace):
    traced = trace(naive_attention, gpu="A100-80GB")

    assert traced.report.peak.allocated_bytes / MIB == pytest.approx(3098.626, abs=0.001)
    assert traced.report.peak.reserved_bytes == 3606 * MIB
