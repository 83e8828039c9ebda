"""Environment variables by which code sets PyTorch's compiler and allocator, where torch is imported."""

import os

import pytest
import torch

from pytest_membudget.devices.real.environment_settings import follow_settings
from pytest_membudget.errors import UnsupportedTorch


def set_in_code(settings, gone=()):
    """What the compiler's settings are then; ``verbose`` is set by code itself before."""
    follow_settings()
    torch._dynamo.config.verbose = False
    os.environb[b"BYTES"] = b"1"
    os.environ.update(settings)
    for name in gone:
        del os.environ[name]
    dynamo, inductor = torch._dynamo.config, torch._inductor.config
    return dynamo.disable, dynamo.verbose, inductor.max_autotune, inductor.triton.cudagraphs


SETTINGS = {
    "TORCH_COMPILE_DISABLE": "1",
    "TORCHDYNAMO_VERBOSE": "1",
    "TORCHINDUCTOR_MAX_AUTOTUNE": "1",
    "TORCHINDUCTOR_CUDAGRAPHS": "1",
}


def test_the_compilers_settings_are_those_of_the_variables_but_for_what_code_has_set(trace):
    assert trace(set_in_code, {}).value == [False, False, False, False]
    assert trace(set_in_code, SETTINGS).value == [True, False, True, True]


def test_a_variable_that_is_gone_sets_nothing(trace):
    gone = ("TORCH_COMPILE_DISABLE", "TORCHINDUCTOR_MAX_AUTOTUNE")

    assert trace(set_in_code, SETTINGS, gone).value == [False, False, False, True]


def expandable(first):
    """Whether the first segment grows, where memory was taken before the variable was set, and where not."""
    follow_settings()
    del first[:]
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    kept = torch.empty(2**20, device="cuda")
    return [one["is_expandable"] for one in torch.cuda.memory_snapshot()], kept.numel()


def after_memory():
    return expandable([torch.empty(2**22, device="cuda")])


def test_the_allocators_settings_count_until_memory_is_taken(trace):
    assert trace(expandable, []).value[0] == [True]
    assert not any(trace(after_memory).value[0])


def without_history():
    follow_settings()
    with pytest.raises(UnsupportedTorch) as caught:
        os.environ["PYTORCH_ALLOC_CONF"] = "backend:cudaMallocAsync"
    return str(caught.value)


def test_an_allocator_without_a_history_is_an_error(trace):
    assert trace(without_history).value.startswith(
        "backend:cudaMallocAsync in PYTORCH_ALLOC_CONF: that allocator"
    )
