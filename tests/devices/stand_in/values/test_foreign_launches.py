"""A kernel that no operator of PyTorch launched may have written anywhere: Triton's, an extension's."""

import ctypes

import torch


def launched_between(how):
    counter = torch.zeros(1, dtype=torch.long, device="cuda")
    if how == "driver":  # as Triton's launcher does
        ctypes.CDLL(None).cuLaunchKernel(None, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    elif how == "printed":
        str(torch.ones(3, device="cuda"))
    return counter.item()


def test_after_it_nothing_is_known(trace):
    traced = trace(launched_between, "driver")

    assert traced.value == 1
    assert len(traced.report.assumptions) == 1


def test_without_it_all_is(trace):
    for how in ("nothing", "printed"):
        traced = trace(launched_between, how)
        assert traced.value == 0
        assert traced.report.assumptions == ()


def replayed():
    counter = torch.zeros(1, dtype=torch.long, device="cuda")
    counter.add_(0)  # what a capture needs once before it
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        counter.add_(1)
    counter.zero_()
    graph.replay()
    return counter.item()


def test_a_graph_that_is_replayed_writes_too(trace):
    """On a card the counter is 1 then, and 0 is what it was before."""
    traced = trace(replayed)

    assert traced.value == 1
    assert len(traced.report.assumptions) == 1
