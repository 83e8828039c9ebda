"""Compiled code that reads environment variables, where the cache of estimates watches who reads which."""

import os

import torch

from pytest_membudget.cache.callers import Callers
from pytest_membudget.cache.probes import was_unwatched, watch_environment

MIB = 2**20


def compiled_reader():
    watch_environment(Callers())

    def region(x):
        return (x + 1) * 2 if os.environ.get("NOT_SET_ANYWHERE") is None else x

    before = was_unwatched()
    result = torch.compile(region, fullgraph=True)(torch.zeros(2**18, device="cuda"))
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    return result.numel(), type(os.environ).__name__, graphs, before, was_unwatched()


def test_reading_a_variable_does_not_break_the_graph_and_is_known_to_be_unseen(trace):
    traced = trace(compiled_reader)

    assert traced.value == [2**18, "WatchedEnvironment", 1, False, True]
    # fused: no sum of its own; the tuner writes over the L2 cache (40 MiB: NVIDIA A100 white paper)
    assert traced.allocated == (2 + 40) * MIB
