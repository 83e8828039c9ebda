"""``torch.cuda`` and its kin, as training scripts ask them; the card's figures are those of the catalogue."""

import pytest
import torch

from pytest_membudget.gpus import find_gpu

MIB = 2**20


def asked(expressions):
    """What the expressions give, as text where it cannot be written as JSON."""
    found = []
    for expression in expressions:
        value = eval(expression, {"torch": torch})
        found.append(value if isinstance(value, (bool, int, float, str, type(None))) else str(value))
    return found


def answers(trace, table, **options):
    return dict(zip(table, trace(asked, list(table), **options).value, strict=True))


def test_one_card_is_there(trace):
    table = {
        "torch.cuda.is_available()": True,
        "torch.cuda.is_initialized()": True,
        "torch.cuda.init()": None,
        "torch.cuda.device_count()": 1,
        "torch.cuda.current_device()": 0,
        "torch.cuda.set_device(0)": None,
        "torch.cuda.set_device('cuda:0')": None,
        "torch.cuda.synchronize()": None,
        "torch.cuda.get_device_name()": "A100-80GB",
        "torch.cuda.get_device_name(0)": "A100-80GB",
        "torch.cuda.get_device_capability('cuda')": "(8, 0)",
        "torch.cuda.get_device_properties(0).total_memory": find_gpu("A100-80GB").total_bytes,
        "torch.cuda.get_device_properties('cuda').multi_processor_count": 108,
        "torch.cuda.get_device_properties(torch.device('cuda')).major": 8,
        "torch.cuda.is_bf16_supported()": True,
        "torch.cuda.is_bf16_supported(including_emulation=False)": True,
        "torch.cuda.is_tf32_supported()": True,
        "torch.cuda.get_arch_list()": "['sm_80']",
        "torch.cuda.can_device_access_peer(0, 0)": False,
        "torch.cuda.utilization()": 0,
        "torch.cuda.temperature()": 0,
        "torch.cuda.ipc_collect()": None,
        "torch.cuda.cudart().cudaProfilerStart()": 0,
        "torch.cuda.check_error(torch.cuda.cudart().cudaProfilerStop())": None,
        "torch.get_device_module().__name__": "torch.cuda",
        "torch.get_device_module('cuda').current_device()": 0,
    }
    assert answers(trace, table) == table


def test_an_old_card_has_no_bf16_of_its_own(trace):
    table = {
        "torch.cuda.get_device_capability()": "(7, 5)",
        "torch.cuda.is_bf16_supported()": True,
        "torch.cuda.is_bf16_supported(including_emulation=False)": False,
        "torch.cuda.is_tf32_supported()": False,
    }
    assert answers(trace, table, gpu="T4") == table


def test_the_accelerator_is_cuda(trace):
    table = {
        "torch.accelerator.is_available()": True,
        "torch.accelerator.current_accelerator().type": "cuda",
        "torch.accelerator.current_accelerator(check_available=True).type": "cuda",
        "torch.accelerator.device_count()": 1,
        "torch.accelerator.current_device_index()": 0,
        "torch.accelerator.set_device_index(0)": None,
        "torch.accelerator.device_index(0).__enter__()": None,
        "torch.accelerator.synchronize()": None,
        "torch.accelerator.empty_cache()": None,
        "torch.accelerator.memory_allocated()": 0,
        "torch.accelerator.memory.max_memory_reserved()": 0,
        "torch.accelerator.reset_peak_memory_stats()": None,
        "torch.accelerator.current_stream() == torch.cuda.current_stream()": True,
    }
    assert answers(trace, table) == table


def test_the_build_has_cuda_and_cudnn(trace):
    table = {
        "torch.version.cuda is not None": True,
        "torch.backends.cuda.is_built()": True,
        "torch.backends.cudnn.is_available()": True,
        "torch.backends.cudnn.version() > 90000": True,
        "torch.backends.cudnn.enabled": True,
        "setattr(torch.backends.cudnn, 'benchmark', True)": None,
        "torch.backends.cudnn.benchmark": True,
        "setattr(torch.backends.cudnn, 'deterministic', True)": None,
        "setattr(torch.backends.cuda.matmul, 'allow_tf32', True)": None,
        "setattr(torch.backends.cudnn, 'allow_tf32', True)": None,
        "torch.backends.cuda.matmul.allow_tf32": True,
        "torch.backends.cuda.flash_sdp_enabled()": True,
        "torch.backends.cuda.is_flash_attention_available()": True,
        "torch.set_float32_matmul_precision('high')": None,
        "torch.use_deterministic_algorithms(True)": None,
        "torch.cuda.nccl.version() >= (2, 20)": True,
        "torch.backends.mps.is_available()": False,
        "torch.xpu.is_available()": False,
    }
    assert answers(trace, table) == table


@pytest.mark.parametrize(
    "expression",
    [
        "torch.cuda.set_device(1)",
        "torch.cuda.get_device_properties(1)",
        "torch.cuda.device('cuda:1')",
        "torch.randn(2, device='cuda:1')",
        "torch.randn(2).cuda(1)",
        "torch.randn(2).to(1)",
        "torch.nn.Linear(2, 2).to('cuda:1')",
    ],
)
def test_a_second_card_is_not_there(trace, expression):
    name, message = trace(error_of, expression).value

    assert name == "RuntimeError"
    assert message.startswith("CUDA error: invalid device ordinal: cuda:1")


def error_of(expression):
    try:
        eval(expression, {"torch": torch})
    except Exception as error:
        return [type(error).__name__, str(error)]


def memory():
    cuda = torch.cuda
    seen = [cuda.memory_allocated(), cuda.mem_get_info()]
    block = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
    seen.append([cuda.memory_allocated(), cuda.max_memory_allocated("cuda"), cuda.memory_reserved(0)])
    del block
    seen.append([cuda.memory_allocated(), cuda.max_memory_allocated(), cuda.memory_reserved()])
    cuda.reset_peak_memory_stats()
    seen.append([cuda.max_memory_allocated(), cuda.max_memory_reserved()])
    free_before = cuda.mem_get_info()[0]
    cuda.empty_cache()
    seen.append([cuda.memory_reserved(), cuda.mem_get_info()[0] - free_before])
    return seen


def test_memory_is_answered_by_the_model(trace):
    """30 MiB are a segment of their own, which stays cached until it is given back."""
    gpu = find_gpu("A100-80GB")
    at_first, free_and_total, held, freed, reset, emptied = trace(memory).value

    assert at_first == 0
    assert free_and_total == [gpu.total_bytes - gpu.context_bytes, gpu.total_bytes]
    assert held == [30 * MIB] * 3
    assert freed == [0, 30 * MIB, 30 * MIB]
    assert reset == [0, 30 * MIB]
    assert emptied == [0, 30 * MIB]


def test_resetting_the_peak_does_not_reset_the_reports(trace):
    assert trace(memory).allocated == 30 * MIB


def statistics():
    held = torch.empty(1000, device="cuda"), torch.empty(MIB, device="cuda")
    stats = torch.cuda.memory_stats()
    nested = torch.cuda.memory_stats_as_nested_dict()
    segments = torch.cuda.memory_snapshot()
    names = (
        "allocated_bytes.all.current", "allocated_bytes.all.peak", "requested_bytes.all.current",
        "reserved_bytes.all.current", "active_bytes.all.peak", "allocation.all.current", "segment.all.current",
        "num_alloc_retries", "num_ooms", "num_device_alloc",
    )  # fmt: skip
    del held
    return [
        [stats[name] for name in names],
        nested["reserved_bytes"]["all"]["current"],
        sorted([one["segment_type"], one["total_size"], one["allocated_size"]] for one in segments),
        "allocated_bytes" in torch.cuda.memory_summary(abbreviated=True),
    ]


def test_statistics_have_pytorchs_keys(trace):
    """4,000 bytes round up to 4,096 in a segment of 2 MiB; 4 MiB lie in one of 20 MiB."""
    stats, reserved, segments, summarised = trace(statistics).value

    allocated = 4096 + 4 * MIB
    assert stats == [allocated, allocated, 4000 + 4 * MIB, 22 * MIB, allocated, 2, 2, 0, 0, 2]
    assert reserved == 22 * MIB
    assert segments == [["large", 20 * MIB, 4 * MIB], ["small", 2 * MIB, 4096]]
    assert summarised


def histories():
    torch.cuda.memory._record_memory_history(max_entries=1000)
    torch.cuda.memory._dump_snapshot("nowhere.pickle")
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    return [sorted(snapshot), torch.cuda.get_allocator_backend()]


def test_memory_histories_are_not_recorded(trace):
    assert trace(histories).value == [["device_traces", "segments"], "native"]


def half_of_the_card():
    torch.cuda.set_per_process_memory_fraction(0.5)
    held = []
    try:
        while True:
            held.append(torch.empty(2**30, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError:
        return len(held)


def test_a_fraction_of_the_card_can_be_asked_for(trace):
    """A T4 has 14.56 GiB."""
    assert trace(half_of_the_card, gpu="T4", limited=True).value == 7


def on_a_stream():
    side = torch.cuda.Stream(priority=-1)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
        inside = torch.cuda.current_stream() == side
    torch.cuda.current_stream().wait_stream(side)
    torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
    with torch.cuda.stream(None):
        outside = torch.cuda.current_stream() == torch.cuda.default_stream()
    with side, side:
        pass
    back = torch.cuda.current_stream().stream_id
    return [inside, outside, back, isinstance(side, torch.Stream), side == torch.cuda.Stream(), side.query()]


def test_each_stream_has_pools_of_its_own(trace):
    """The main stream cannot use the 20 MiB segment that the other left."""
    traced = trace(on_a_stream)

    assert traced.value == [True, True, 0, True, False, True]
    assert traced.report.peak.reserved_bytes == 40 * MIB
    assert traced.allocated == 4 * MIB


def recorded_on_a_stream(recorded):
    block = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
    if recorded:
        block.record_stream(torch.cuda.Stream())
    del block
    stats = torch.cuda.memory_stats()
    return stats["active_bytes.all.current"], stats["allocated_bytes.all.current"]


@pytest.mark.parametrize("recorded", [True, False])
def test_a_recorded_stream_keeps_a_freed_block_active(trace, recorded):
    assert trace(recorded_on_a_stream, recorded).value == [4 * MIB if recorded else 0, 0]


def events():
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    end.record(torch.cuda.current_stream())
    torch.cuda.synchronize()
    start.wait()
    end.synchronize()
    torch.cuda.current_stream().wait_event(torch.cuda.Stream().record_event())
    torch.Event(device="cuda").record(torch.Stream(device="cuda"))
    return 1000 / start.elapsed_time(end) > 0 and end.query()


def test_events_have_happened_and_took_time(trace):
    assert trace(events).value is True


def contexts():
    x = torch.ones(2, device="cuda")
    with torch.cuda.device(0), torch.cuda.device("cuda"), torch.cuda.device_of(x):
        return torch.empty(1, device="cuda").device.index


def test_device_contexts_are_entered(trace):
    assert trace(contexts).value == 0


def tools():
    torch.cuda.nvtx.range_push("step")
    torch.cuda.nvtx.mark("here")
    torch.cuda.nvtx.range_pop()
    torch.cuda.nvtx.range_end(torch.cuda.nvtx.range_start("step"))
    with torch.cuda.nvtx.range("block"):
        pass
    torch.cuda.profiler.start()
    torch.cuda.profiler.stop()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        torch.ones(2, device="cuda") + 1
    return "aten::add" in profiler.key_averages().table()


def test_marks_and_profiles_are_taken(trace):
    assert trace(tools).value is True


def graphs(how):
    model, x = torch.nn.Linear(2, 2, device="cuda"), torch.randn(1, 2, device="cuda")
    try:
        if how == "CUDAGraph":
            torch.cuda.CUDAGraph()
        elif how == "graph":
            torch.cuda.graph(None)
        else:
            torch.cuda.make_graphed_callables(model, (x,))
    except Exception as error:
        return [type(error).__name__, str(error)]


@pytest.mark.parametrize("how", ["CUDAGraph", "graph", "make_graphed_callables"])
def test_graphs_are_refused_with_a_reason(trace, how):
    name, message = trace(graphs, how).value

    assert name == "NotAvailable"
    assert message.startswith(f"torch.cuda.{how} is not part of the virtual CUDA device")
