"""The recorded events, played by address, give the totals of PyTorch's allocator to the byte.

Each body ends with the allocator's own counters; every kind of pool, segment and setting has one.
"""

import pytest
import torch

from pytest_membudget.allocator.history import history_in
from tests.allocator.played import last_blocks, play

MIB = 2**20
#: Requests of all sizes, in and around the limits of pools and of what is split.
SIZES = [1, 500, 512, 513, 100_000, MIB - 1, MIB, MIB + 1, 3 * MIB, 5 * MIB + 7, 10 * MIB, 11 * MIB, 19 * MIB]


def recorded(body, settings):
    """``body`` in a recorded run; what the allocator says of it, and what its events do."""
    torch.cuda.init()
    if settings:
        torch.cuda.memory._set_allocator_settings(settings)
    torch.cuda.memory._record_memory_history("all", context=None)
    body()
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    snapshot = torch.cuda.memory._snapshot()
    history = history_in(snapshot, 0)
    played = play(history)
    told = [
        stats[f"{name}_bytes.all.{which}"]
        for which in ("peak", "current")
        for name in ("allocated", "reserved")
    ]
    found = [
        played.peak_allocated_bytes,
        played.peak_reserved_bytes,
        played.allocated_bytes,
        played.reserved_bytes,
    ]
    return {
        "told": told,
        "played": found,
        "blocks": played.blocks == last_blocks(history),
        "requests": sum(event.action == "alloc" for event in history.events),
        "settings": snapshot["allocator_settings"]["PYTORCH_CUDA_ALLOC_CONF"],
    }


def churn(seed=1, steps=400, streams=()):
    """Requests and frees in an order that is the same each time."""
    import random

    rng, held = random.Random(seed), []
    for _ in range(steps):
        if held and rng.random() < 0.45:
            held.pop(rng.randrange(len(held)))
        else:
            size = rng.choice(SIZES) + rng.randrange(2000)
            with torch.cuda.stream(rng.choice([None, *streams])):
                held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
    return held


def plain():
    churn()
    held = churn(2)
    del held[::2]
    torch.cuda.empty_cache()
    churn(3)


def two_streams():
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    held = churn(4, streams=streams)
    for tensor in held[::3]:
        tensor.record_stream(streams[0])
    del held, tensor
    torch.cuda.empty_cache()
    churn(5, streams=streams)


def graphs():
    kept = churn(6, 100)
    graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
    with torch.cuda.graph(graph, pool=pool):
        inside = churn(7, 200)
    second = torch.cuda.CUDAGraph()
    with torch.cuda.graph(second, pool=pool):
        churn(8, 200)
    del inside[::2]
    graph.replay()
    churn(9, 100)
    del graph, second, inside
    torch.cuda.empty_cache()
    churn(10, 100)
    del kept


def graph_and_streams():
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph):
        first = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            first.add_(1)
            first.record_stream(stream)
        torch.cuda.current_stream().wait_stream(stream)
        del first
        churn(11, 100)
    churn(12, 100)


def memory_pools():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        kept = churn(13, 150)
    outside = churn(14, 150)
    del kept[::2], outside[::2]
    with torch.cuda.use_mem_pool(pool):
        churn(15, 150)
    del kept, pool
    torch.cuda.empty_cache()
    churn(16, 50)


def checkpointed_pool():
    """What CUDA graph trees do: a pool goes back to the state of an earlier graph."""
    graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
    with torch.cuda.graph(graph, pool=pool):
        churn(17, 150)
    state = torch._C._cuda_getCheckpointState(0, pool)
    second = torch.cuda.CUDAGraph()
    with torch.cuda.graph(second, pool=pool):
        later = churn(18, 150)
    stale = [tensor.untyped_storage()._cdata for tensor in later]
    torch._C._cuda_setCheckpointPoolState(0, state, stale, [])
    churn(19, 50)


def out_of_memory():
    """Memory that is cached is given back before PyTorch gives up, and once it was enough."""
    kept = [torch.empty(1000 * MIB, dtype=torch.uint8, device="cuda") for _ in range(16)]
    kept += churn(20, 100)
    del kept[:8]
    kept.append(torch.empty(12_000 * MIB, dtype=torch.uint8, device="cuda"))
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(30_000 * MIB, dtype=torch.uint8, device="cuda")
    churn(21, 50)


def a_training_step():
    model = torch.nn.Sequential(torch.nn.Linear(700, 700), torch.nn.GELU(), torch.nn.Linear(700, 700)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        model(torch.randn(300, 700, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def of(body, settings):
    return recorded(globals()[body], settings)


BODIES = [
    plain,
    two_streams,
    graphs,
    graph_and_streams,
    memory_pools,
    checkpointed_pool,
    out_of_memory,
    a_training_step,
]
SETTINGS = [
    "",
    "expandable_segments:True",
    "max_split_size_mb:21",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:[1:2,8:4,>:8],garbage_collection_threshold:0.6",
]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_the_totals_and_blocks_are_pytorchs(stand_in, body, settings):
    found = stand_in(of, body.__name__, settings, gpu="RTX-4090")

    assert found["settings"] == settings
    assert found["played"] == found["told"]
    assert found["blocks"]
    assert found["requests"] > 0
