"""Compiled code that reads environment variables, where the cache of estimates watches who reads which."""

import os

import torch

MIB = 2**20


class Watched(os._Environ):
    @torch._dynamo.disable  # as the cache's, of a package that dynamo does not look into
    def __getitem__(self, key):
        return str(super().__getitem__(key))


def compiled_reader():
    os.environ.__class__ = Watched

    def region(x):
        return (x + 1) * 2 if os.environ.get("NOT_SET_ANYWHERE") is None else x

    result = torch.compile(region, fullgraph=True)(torch.zeros(2**18, device="cuda"))
    return result.numel(), type(os.environ).__name__, torch._dynamo.utils.counters["stats"]["unique_graphs"]


def test_reading_a_variable_does_not_break_the_graph(trace):
    traced = trace(compiled_reader)

    assert traced.value == [2**18, "Watched", 1]
    assert traced.allocated == 2 * MIB  # fused: no sum of its own
