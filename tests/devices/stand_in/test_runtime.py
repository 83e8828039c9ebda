"""Streams, events, graphs and what else PyTorch asks of CUDA's runtime and of NVML."""

from collections import Counter

import pytest

from pytest_membudget.devices.torch_parts import torch_release
from pytest_membudget.units import MIB


def streams_and_events():
    import torch

    side = torch.cuda.Stream(priority=-1)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    with torch.cuda.stream(side):
        inner = torch.cuda.current_stream() == side
        torch.ones(4, device="cuda")
    torch.cuda.current_stream().wait_stream(side)
    end.record()
    end.synchronize()
    times = {start.elapsed_time(end) for _ in range(3)}
    return [inner, side.priority, side.query(), end.query(), len(times), min(times) > 0]


def test_streams_and_events_are_done_at_once(stand_in):
    assert stand_in(streams_and_events) == [True, -1, True, True, 1, True]


def what_a_graph_keeps():
    import torch

    x = torch.empty(4 * 2**20, dtype=torch.uint8, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        capturing = torch.cuda.is_current_stream_capturing()
        y = x + 1  # 4 MiB in the pool of the graph
        y = y + 1  # 4 MiB more; the first is free within the pool
    pools = Counter()
    for segment in torch.cuda.memory_snapshot():
        pools[tuple(segment["segment_pool_id"])] += segment["total_size"]
    graph.replay()
    captured = [capturing, torch.cuda.is_current_stream_capturing(), len(pools), y.nbytes]
    allocated = torch.cuda.memory_allocated()
    del y
    graph.reset()
    torch.cuda.empty_cache()
    return [captured, allocated, sorted(pools.values()), torch.cuda.memory_reserved()]


def test_a_graph_has_a_pool_of_its_own(stand_in):
    captured, allocated, pools, after = stand_in(what_a_graph_keeps)

    assert captured == [True, False, 2, 4 * MIB]
    # until 2.13 also the seed and the offset of random numbers that graphs read, a block each in a small
    # segment; from 2.12 on they go with the graph
    numbers, their_segment = (2 * 512, 2 * MIB) if torch_release() < (2, 14) else (0, 0)
    assert allocated == 8 * MIB + numbers  # x and y
    # a segment each, of 20 MiB for blocks of 1 to 10 MiB
    assert pools == [20 * MIB, 20 * MIB + their_segment]
    # the graph's pool is gone with it
    assert after == 20 * MIB + (their_segment if torch_release() < (2, 12) else 0)


def synchronised_capture(whole_device):
    import torch

    x = torch.ones(3, device="cuda")
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            y = (x + 1).sum()
            torch.cuda.synchronize() if whole_device else y.item()
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize("whole_device", [False, True])
def test_waiting_in_a_capture_is_cudas_own_error(stand_in, whole_device):
    assert "operation failed due to a previous error during capture" in stand_in(
        synchronised_capture, whole_device
    )


def graphed_training():
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).cuda()
    x = torch.randn(16, 64, device="cuda")
    graphed = torch.cuda.make_graphed_callables(model, (x,))
    graphed(x).sum().backward()
    return [p.grad is not None for p in model.parameters()]


def test_graphed_callables_train(stand_in):
    assert stand_in(graphed_training) == [True] * 4


def two_captured_streams():
    import torch

    x = torch.ones(2**20, device="cuda")
    side = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            inner = torch.cuda.is_current_stream_capturing()
            y = x + 1
        torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.stream(side):
        after = torch.cuda.is_current_stream_capturing()
    pools = {tuple(segment["segment_pool_id"]) for segment in torch.cuda.memory_snapshot()}
    return [inner, after, y.nbytes, len(pools)]


def test_a_stream_that_waits_for_a_capture_joins_it(stand_in):
    assert stand_in(two_captured_streams) == [True, False, 4 * MIB, 2]


def trained_in_threads():
    import threading
    import warnings

    import torch

    failures = []

    def step():
        try:
            model = torch.nn.Linear(256, 256, device="cuda")
            for _ in range(20):
                model(torch.randn(64, 256, device="cuda")).sum().backward()
        except Exception as error:
            failures.append(repr(error))

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        threads = [threading.Thread(target=step) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return [failures, [str(warning.message) for warning in warned]]


def test_many_threads_train_without_a_warning(stand_in):
    assert stand_in(trained_in_threads) == [[], []]


def with_nvml():
    import torch

    return [torch.cuda._device_count_nvml(), torch.cuda.is_available(), torch.cuda.device_count()]


def test_nvml_counts_the_same_cards(stand_in):
    assert stand_in(with_nvml, count=3, imported_with={"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}) == [3, True, 3]


def the_versions():
    import ctypes

    import torch

    numbers = []
    for function in ("cudaRuntimeGetVersion", "cudaDriverGetVersion", "cuDriverGetVersion"):
        number = ctypes.c_int()
        getattr(ctypes.CDLL(None), function)(ctypes.byref(number))
        numbers.append(number.value)
    return [
        torch.version.cuda,
        numbers,
        torch.cuda.cudart().cudaGetErrorString(torch.cuda.cudart().cudaError(2)),
    ]


def test_the_runtime_is_of_the_cuda_that_torch_was_built_for(stand_in):
    version, numbers, text = stand_in(the_versions)

    major, minor = version.split(".")
    assert numbers == [1000 * int(major) + 10 * int(minor)] * 3
    assert text == "out of memory"


def an_unknown_function():
    import ctypes

    import torch

    torch.empty(1, device="cuda")
    refused = ctypes.CDLL(None).cudaMallocArray(None, None, 1, 1, 0)
    found = ctypes.CDLL("libcuda.so.1").cuArrayCreate_v2(None, None)
    return [refused, found]


def test_a_function_that_nobody_modelled_refuses_and_is_recorded(stand_in):
    refused, found = stand_in(an_unknown_function, not_modelled=["cudaMallocArray", "cuArrayCreate_v2"])

    assert (refused, found) == (801, 801)


def jiterated():
    import torch

    square = torch.cuda.jiterator._create_jit_fn("template <typename T> T square(T x) { return x * x; }")
    return list(square(torch.ones(5, device="cuda")).shape)


def test_nvrtc_compiles_and_the_stand_in_launches(stand_in):
    pytest.importorskip("nvidia")

    assert stand_in(jiterated) == [5]


def forked_beside_threads():
    import ctypes
    import os
    import threading

    cuda = ctypes.CDLL(None)
    stopped = threading.Event()

    def allocate():
        address = ctypes.c_void_p()
        while not stopped.is_set():  # ctypes lets go of the interpreter's lock: the library's own is at work
            cuda.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(2**21))
            cuda.cudaFree(address)

    threads = [threading.Thread(target=allocate) for _ in range(4)]
    for thread in threads:
        thread.start()
    statuses = []
    for _ in range(100):
        child = os.fork()
        if not child:
            address = ctypes.c_void_p()
            os._exit(cuda.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(2**21)))
        statuses.append(os.waitpid(child, 0)[1])
    stopped.set()
    for thread in threads:
        thread.join()
    return statuses


def test_a_child_of_fork_finds_no_lock_held(stand_in):
    assert stand_in(forked_beside_threads) == [0] * 100
