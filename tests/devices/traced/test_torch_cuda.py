"""``torch.cuda`` and its kin, as training scripts ask them; the card's figures are those of the catalogue."""

import pytest
import torch

from pytest_membudget.hardware.gpus import find_gpu


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
        "torch.distributed.is_nccl_available()": True,
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
