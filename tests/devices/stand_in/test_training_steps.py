"""A training step on the stand-in, beside its sum by hand."""

import importlib.util

import pytest

from pytest_membudget.units import MIB


def two_layers():
    import torch

    model = torch.nn.Sequential(
        torch.nn.Linear(1024, 1024, bias=False), torch.nn.ReLU(), torch.nn.Linear(1024, 1024, bias=False)
    ).to("cuda", torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    x = torch.randn(512, 1024, device="cuda", dtype=torch.bfloat16)
    before = torch.cuda.memory_allocated()
    loss = model(x).sum()
    torch._C._cuda_clearCublasWorkspaces()
    forward = torch.cuda.memory_allocated()
    loss.backward()
    optimizer.step()
    del loss
    torch._C._cuda_clearCublasWorkspaces()
    return [before, forward, torch.cuda.memory_allocated()]


def test_a_step_keeps_what_its_arithmetic_says(stand_in):
    weights, x, hidden = 2 * 2 * MIB, 1 * MIB, 1 * MIB  # 1024 x 1024 and 512 x 1024 in bf16
    step = 2 * 512  # fused AdamW counts its steps on the card: a number of 512 bytes for each weight

    before, forward, after = stand_in(two_layers)

    assert before == weights + x
    assert forward == before + hidden + 512  # the ReLU's result, kept for the second weight, and the loss
    assert after == before + weights + 2 * weights + step  # gradients, two moments


def component_of_a_table():
    import torch

    from pytest_membudget.devices.real.recorded_run import RecordedRun

    run = RecordedRun()
    run.begin()
    table = torch.nn.Embedding(1000, 1000, sparse=True).cuda()
    table(torch.zeros(4, dtype=torch.long, device="cuda")).sum().backward()
    ledger = run.end().ledger
    largest = max(ledger.alive_at(ledger.allocated_peak), key=lambda record: record.requested_bytes)
    return [ledger.component_of(largest), largest.requested_bytes]


def test_a_parameter_with_a_sparse_gradient_is_trained_without_an_optimizer_too(stand_in):
    assert stand_in(component_of_a_table) == ["parameters", 1000 * 1000 * 4]


def compiled():
    import torch

    def body(x):
        return (x.sin() + 1).relu()

    x = torch.randn(1024, 1024, device="cuda")
    function = torch.compile(body)
    peaks = []
    for f in (body, function, function):
        torch.cuda.reset_peak_memory_stats()
        f(x)
        peaks.append(torch.cuda.max_memory_allocated())
    return [peaks[0], peaks[-1]]


def test_a_compiled_function_is_one_kernel(stand_in):
    if importlib.util.find_spec("triton") is None:
        pytest.skip("torch.compile needs Triton")

    eager, fused = stand_in(compiled, environ={"TORCHINDUCTOR_FX_GRAPH_CACHE": "0"})

    assert eager == 3 * 4 * MIB  # x, and two results at a time
    assert fused == 2 * 4 * MIB  # x and the result
