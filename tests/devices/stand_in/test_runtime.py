"""Streams, events, graphs and what else PyTorch asks of CUDA's runtime and of NVML."""

import ctypes
import inspect
import json
import os
import subprocess
import threading
import warnings
from collections import Counter

import pytest
import torch
from allocations import not_modelled

from pytest_membudget.devices.stand_in.libraries import StandInLibraries
from pytest_membudget.devices.torch_parts import torch_release
from pytest_membudget.results.varied import BLOCKS
from pytest_membudget.units import MIB

#: What NVRTC's own libraries answer, by CUDA's release.
NVRTC_ARCHITECTURES = {
    "12.6": [50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90],
    "12.8": [50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 120],
    **{key: [75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121] for key in ("13.0", "13.1", "13.2")},
}


def streams_and_events():
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


def graphed_training():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).cuda()
    x = torch.randn(16, 64, device="cuda")
    graphed = torch.cuda.make_graphed_callables(model, (x,))
    graphed(x).sum().backward()
    return [p.grad is not None for p in model.parameters()]


def two_captured_streams():
    """A stream that waits for a capture joins it."""
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


def trained_in_threads():
    """Many threads train without an error or a warning."""
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


def forked_beside_threads():
    """A child of fork finds no lock held: in a process without torch, which is copied at once."""
    python = os.path.realpath("/proc/self/exe")
    code = f"import ctypes, os, threading\n{inspect.getsource(forked)}print(forked())"
    return json.loads(subprocess.check_output([python, "-c", code]))


def forked():
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


def jiterated():
    """NVRTC compiles and the stand-in launches."""
    square = torch.cuda.jiterator._create_jit_fn("template <typename T> T square(T x) { return x * x; }")
    return list(square(torch.ones(5, device="cuda")).shape)


def architectures_of_nvrtc():
    """As Transformer Engine asks before it compiles (2.20.2)."""
    library, count = ctypes.CDLL(None), ctypes.c_int()
    library.nvrtcGetNumSupportedArchs(ctypes.byref(count))
    numbers = (ctypes.c_int * count.value)()
    library.nvrtcGetSupportedArchs(numbers)
    return [*numbers] == NVRTC_ARCHITECTURES[torch.version.cuda]


def blocks_of_a_kernel_compiled_at_run_time():
    """As Transformer Engine's backward of a norm asks, which allocates for each of them (2.20.2)."""
    libraries, driver, blocks = StandInLibraries(), ctypes.CDLL(None), ctypes.c_int()
    found = []
    for other in (False, True):
        libraries.vary(other=other)
        driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            ctypes.byref(blocks), None, 128, ctypes.c_size_t(0)
        )
        found.append(blocks.value)
    return [found, libraries.asked()]


def asked_of_clusters_and_groups():
    """As Transformer Engine does (2.20.2). A100: 108 multiprocessors, two for a cluster of blocks."""
    library, clusters = ctypes.CDLL(None), ctypes.c_int()
    asked = library.cudaOccupancyMaxActiveClusters(ctypes.byref(clusters), None, None)
    return [asked, clusters.value, library.cublasLtGroupedMatrixLayoutInit_internal(bytes(64), 64, 0, 1)]


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (streams_and_events, [True, -1, True, True, 1, True]),  # done at once
        (graphed_training, [True] * 4),
        (two_captured_streams, [True, False, 4 * MIB, 2]),
        (trained_in_threads, [[], []]),
        (forked_beside_threads, [0] * 100),
        (jiterated, [5]),
        (asked_of_clusters_and_groups, [0, 54, 0]),
        (architectures_of_nvrtc, True),
        # 2,048 threads; with 255 registers a thread, taken by 256, 2 of 128 threads in 65,536
        (blocks_of_a_kernel_compiled_at_run_time, [[16, 2], [BLOCKS]]),
    ],
)
def test_what_pytorch_asks_for_is_answered(stand_in, body, value):
    assert stand_in(body) == value


def what_a_graph_keeps():
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
    text = "operation failed due to a previous error during capture"
    assert text in stand_in(synchronised_capture, whole_device)


def with_nvml():
    return [torch.cuda._device_count_nvml(), torch.cuda.is_available(), torch.cuda.device_count()]


def test_nvml_counts_the_same_cards(stand_in):
    assert stand_in(with_nvml, count=3, imported_with={"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}) == [3, True, 3]


def the_versions():
    numbers = []
    for function in ("cudaRuntimeGetVersion", "cudaDriverGetVersion", "cuDriverGetVersion"):
        number = ctypes.c_int()
        getattr(ctypes.CDLL(None), function)(ctypes.byref(number))
        numbers.append(number.value)
    runtime = torch.cuda.cudart()
    return [torch.version.cuda, numbers, runtime.cudaGetErrorString(runtime.cudaError(2))]


def test_the_runtime_is_of_the_cuda_that_torch_was_built_for(stand_in):
    version, numbers, text = stand_in(the_versions)

    major, minor = version.split(".")
    assert numbers == [1000 * int(major) + 10 * int(minor)] * 3
    assert text == "out of memory"


def an_unknown_function():
    torch.empty(1, device="cuda")
    refused = ctypes.CDLL(None).cudaMallocArray(None, None, 1, 1, 0)
    found = ctypes.CDLL("libcuda.so.1").cuArrayCreate_v2(None, None)
    return [refused, found]


def test_a_function_that_nobody_modelled_refuses_and_is_recorded(stand_in):
    names = ["cudaMallocArray", "cuArrayCreate_v2"]
    assert stand_in(an_unknown_function, not_modelled=names) == [801, 801]


# Copies of rectangles, which nothing in PyTorch makes today, are as those of rows


def copied(function, *stream):
    """Two rows of four bytes, of a card's memory whose rows begin every 16, into rows that begin every 8."""
    cuda = ctypes.CDLL(None)
    on_card, size = ctypes.c_void_p(), ctypes.c_size_t
    cuda.cudaMalloc(ctypes.byref(on_card), size(2**21))
    cuda.stand_in_answer_copy(b"answered", size(8))
    rows = []
    for _ in range(2):  # the answer, and then what lies there
        target = ctypes.create_string_buffer(b"." * 16, 16)
        to_host = [target, size(8), on_card, size(16), size(4), size(2), 2]
        assert getattr(cuda, function)(*to_host, *stream) == 0
        rows.append(target.raw.decode())
    return rows, cuda.stand_in_answers_waiting()


@pytest.mark.parametrize(("function", "stream"), [("cudaMemcpy2D", []), ("cudaMemcpy2DAsync", [None])])
def test_a_rectangle_gets_the_answer_that_waits(stand_in, function, stream):
    rows, waiting = stand_in(copied, function, *stream)

    assert rows == ["answ....ered....", "\0\0\0\0....\0\0\0\0...."]
    assert waiting == 0


def filled():
    cuda = ctypes.CDLL(None)
    on_card, size = ctypes.c_void_p(), ctypes.c_size_t
    cuda.cudaMalloc(ctypes.byref(on_card), size(2**21))
    cuda.cudaMemset(on_card, ord("."), size(16))
    cuda.cudaMemset2D(on_card, size(8), ord("x"), size(3), size(2))
    return ctypes.string_at(on_card.value, 16).decode()


def test_a_rectangle_is_filled_row_by_row(stand_in):
    assert stand_in(filled) == "xxx.....xxx....."


def profiled():
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        torch.cuda.nvtx.range_push("step")
        x = torch.zeros(1024, 1024, device="cuda")
        (x @ x).sum()
        torch.cuda.nvtx.range_pop()
    taken = {event.key: event.self_device_memory_usage for event in profile.key_averages()}
    return taken["aten::empty"], taken["aten::mm"], not_modelled()


def test_a_profile_has_the_memory_of_its_operators(stand_in):
    """A 4 MiB tensor for each: what torch.profiler attributes to the operator that allocates."""
    # before 2.15 the product's workspace is kept: 8,519,680 bytes on this card (CUDABlas.cpp)
    workspace = 0 if torch_release() >= (2, 15) else 8_519_680
    assert stand_in(profiled) == [4 * MIB, 4 * MIB + workspace, []]
