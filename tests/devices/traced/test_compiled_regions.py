"""``torch.compile`` on the virtual device: PyTorch's compiler decides what is saved and what is allocated.

One run does everything here, since each process imports inductor anew; sizes are in MiB, tensors of one MiB.
"""

import copy
import gc
import io

import pytest
import torch
import torch._dynamo
from torch import nn
from torch.nn.attention.flex_attention import flex_attention
from torch.utils.checkpoint import checkpoint

from pytest_membudget.devices.torch_parts import torch_release

MIB = 2**20
#: from 2.15 on, what a product holds while it runs; before, it is kept from the first product on
WORKSPACE = 8.125 if torch_release() >= (2, 15) else 0


def held():
    return torch.cuda.memory_allocated() / MIB


def one_mib():
    return torch.randn(512, 512, device="cuda", requires_grad=True)


def chain(x):
    return x.sin().cos().tanh().sigmoid()


def block(x, first, second):
    return torch.nn.functional.gelu(x @ first) @ second


def kept_by(function, *inputs):
    """What a forward leaves, and what it takes at most."""
    gc.collect()  # what earlier parts have left in reference cycles
    before = held()
    torch.cuda.reset_peak_memory_stats()
    output = function(*inputs)
    return [held() - before, torch.cuda.max_memory_allocated() / MIB - before], output


def saved():
    x, first, second = one_mib(), one_mib(), one_mib()
    (x @ x).sum().backward()  # cuBLAS's workspaces are there
    x.grad = None
    results = {}
    for name, function, inputs in (
        ("chain", chain, (x,)),
        ("block", block, (x, first, second)),
        ("checkpoint", lambda x: checkpoint(chain, x.sin(), use_reentrant=False), (x,)),
        ("zero", lambda x: (0 * x + x).sin(), (x,)),
    ):
        compiled = torch.compile(function)
        for kind, called in (("eager", function), ("compiled", compiled), ("again", compiled)):
            results[f"{name} {kind}"], output = kept_by(called, *inputs)
            output.sum().backward()
            results[f"{name} {kind} gradients"] = [list(one.grad.shape) for one in inputs]
            for one in inputs:
                one.grad = None
            del output
    with torch.no_grad():
        results["inference eager"], _ = kept_by(chain, x)
        results["inference compiled"], _ = kept_by(torch.compile(chain), x)
    results["other backend"], _ = kept_by(torch.compile(chain, backend="eager"), x)
    return results


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = (nn.Linear(512, 512, bias=False, device="cuda") for _ in range(2))

    def forward(self, x):
        return x + self.second(torch.nn.functional.gelu(self.first(x)))


def layers():
    start = held()
    model = nn.Sequential(*[Block() for _ in range(3)])
    for layer in model:
        layer.compile()
    optimizer = torch.optim.AdamW(model.parameters())
    step = torch.compile(optimizer.step)
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    peaks = []
    for _ in range(2):
        model(one_mib()).sum().backward()
        if not peaks:
            compiled = torch._dynamo.utils.counters["stats"]["unique_graphs"] - before
        torch.cuda.reset_peak_memory_stats()
        at_step = held()
        step()
        peaks.append([held() - at_step, torch.cuda.max_memory_allocated() / MIB - at_step])
        optimizer.zero_grad()
    states = sorted(optimizer.state[model[0].first.weight])
    del model, optimizer, step, layer
    torch._dynamo.reset()
    gc.collect()
    return {"graphs": compiled, "steps": peaks, "states": states, "left": held() - start}


def whole_module():
    model = torch.compile(nn.Linear(512, 512, bias=False, device="cuda"))
    model.tag = "mine"
    output = model(one_mib())
    twin = copy.deepcopy(model)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    return {
        "keys": sorted(model.state_dict()), "tag": model._orig_mod.tag,
        "inside": type(model._orig_mod).__name__, "output": list(output.shape),
        "twin": twin._orig_mod.weight is model._orig_mod.weight,
        "loaded": list(loaded(one_mib()).shape), "compiling": torch.compiler.is_compiling(),
    }  # fmt: skip


def breaks():
    @torch.compile
    def cut(x):
        x = chain(x)
        torch._dynamo.graph_break()
        return chain(x)

    @torch.compile(fullgraph=True)
    def whole(x):
        torch._dynamo.graph_break()
        return x

    x = one_mib()
    kept, output = kept_by(cut, x)
    output.sum().backward()
    try:
        whole(x)
    except torch._dynamo.exc.Unsupported as error:
        return {"kept": kept, "error": type(error).__name__}


def sizes():
    """Another size, and one given as unknown from the start."""
    results = []
    for options in ({}, {"dynamic": True}):
        compiled = torch.compile(lambda x: chain(x), **options)
        for rows in (512, 1024, 2048):
            x = torch.randn(rows, 512, device="cuda", requires_grad=True)
            kept, output = kept_by(compiled, x)
            output.sum().backward()
            results.append(kept[0])
    return results


def not_compiled():
    host = torch.compile(chain)
    host(torch.randn(8, 8))
    torch.compile(chain, mode="reduce-overhead")(one_mib())
    skipped = nn.Sequential(nn.Linear(512, 512, device="cuda"))
    skipped.compile()  # PyTorch before 2.15 passes over frames of its own modules
    skipped(one_mib())


def asked():
    @torch.compile(fullgraph=True)
    def ask(x):
        if torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= 8:
            x = x * 2
        return x.cuda()[:2] * torch.tensor([1.0, 2.0], device=x.device)

    return list(ask(torch.randn(8, device="cuda")).shape)


def flexible_attention():
    """One layer of 4 heads, 512 tokens of 64 in bfloat16: in KiB."""
    query = torch.randn(2, 4, 512, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    (kept, _), output = kept_by(torch.compile(flex_attention), query, query, query)
    output.sum().backward()
    return kept * 1024


def failing():
    """What inductor cannot compile here."""
    from torch._inductor.graph import GraphLowering

    codegen = GraphLowering.codegen
    GraphLowering.codegen = lambda graph: 1 / 0
    try:
        kept, _ = kept_by(torch.compile(lambda x: chain(x)), one_mib())
    finally:
        GraphLowering.codegen = codegen
    return kept[0]


def fan_in():
    """Outside any region: autograd adds to a gradient in place, as ever."""
    x = one_mib()
    y = x * 1
    outputs = [y * 2, y * 3, y * 4]
    before = held()
    torch.cuda.reset_peak_memory_stats()
    torch.autograd.backward(outputs, [torch.ones_like(y) for _ in outputs])
    return torch.cuda.max_memory_allocated() / MIB - before


PARTS = (saved, layers, whole_module, breaks, sizes, not_compiled, asked, flexible_attention, failing, fan_in)


def everything():
    before = fan_in()
    results = {part.__name__: part() for part in PARTS}
    return {**results, "fan_in before": before}


RUN = []


@pytest.fixture
def run(trace):
    if not RUN:
        RUN.append(None)
        RUN[0] = trace(everything)
    assert RUN[0] is not None, "it failed: see the first test here"
    return RUN[0]


@pytest.mark.parametrize(
    ("name", "left", "most"),
    [
        # sin's result for cos, tanh's for itself; and sigmoid's, which is the output
        ("chain eager", 3, 3),
        # all of it is computed again from the input: one kernel, one output
        ("chain compiled", 1, 1),
        ("chain again", 1, 1),
        # each product's result and gelu's: the second product's backward reads it, so it is kept here too
        ("block eager", 3, 3 + WORKSPACE),
        ("block compiled", 3, 3 + WORKSPACE),
        # eager: what goes in, and two at a time; compiled: neither that nor what is computed again
        ("checkpoint eager", 2, 3),
        ("checkpoint compiled", 1, 1),
        # eager: the sum, which sin's backward reads; compiled: the product is a constant
        ("zero eager", 2, 2),
        ("zero compiled", 1, 1),
        # two at a time, or none but the output
        ("inference eager", 1, 2),
        ("inference compiled", 1, 1),
        ("other backend", 3, 3),
    ],
)
def test_a_forward_keeps_what_pytorchs_partitioner_saves(run, name, left, most):
    assert run.value["saved"][name] == [left, most]


def test_a_compiled_regions_gradients_reach_its_inputs(run):
    values = run.value["saved"]

    for name in ("chain", "block", "checkpoint"):
        assert values[f"{name} compiled gradients"] == values[f"{name} eager gradients"]


def test_layers_are_compiled_once_and_leave_nothing(run):
    """Six weights of one MiB each: two states of each are made in the first step, and no list of roots."""
    values = run.value["layers"]

    assert values["graphs"] == 1
    (grown, peak), later = values["steps"]
    assert grown == pytest.approx(12, abs=0.01)  # and a step count of 4 bytes, in blocks of 512
    assert peak == grown
    assert later == [0, 0]
    assert values["states"] == ["exp_avg", "exp_avg_sq", "step"]
    assert values["left"] == 0


def test_a_compiled_module_is_pytorchs_own(run):
    assert run.value["whole_module"] == {
        "keys": ["_orig_mod.weight"],
        "tag": "mine",
        "inside": "Linear",
        "output": [512, 512],
        "twin": False,
        "loaded": [512, 512],
        "compiling": False,
    }


def test_a_graph_break_makes_two_regions(run):
    """The first region's output is the second's input, and is kept."""
    assert run.value["breaks"] == {"kept": [2, 2], "error": "Unsupported"}


def test_a_region_is_compiled_for_each_size(run):
    assert run.value["sizes"] == [1, 2, 4, 1, 2, 4]


def test_questions_to_torch_are_answered_inside_a_region(run):
    assert run.value["asked"] == [2]


def test_compiled_flex_attention_keeps_its_output_and_a_sum_a_row(run):
    """512 KiB, 2 x 4 x 512 sums of 4 bytes, four blocks of 512 bytes for a mask of one block; no scores."""
    assert run.value["flexible_attention"] == 512 + 16 + 2


def test_what_cannot_be_compiled_here_is_eager_and_named(run):
    """The output, and two tensors that eager code keeps."""
    assert run.value["failing"] == 3
    (line,) = [line for line in run.report.not_modelled if "ZeroDivisionError" in line]
    assert line.startswith("torch.compile: <lambda> (")
    assert "is traced as eager code" in line


def test_code_outside_regions_is_estimated_as_ever(run):
    assert run.value["fan_in"] == run.value["fan_in before"]


def test_the_report_says_what_was_compiled_and_how(run):
    told = [line for line in run.report.assumptions if line.startswith("torch.compile")]

    line = chain.__code__.co_firstlineno + 1
    assert told[0].startswith(f"torch.compile: test_compiled_regions.py:{line} in chain: saved tensors and ")
    assert "min-cut partitioner" in told[0]
    # 2.15 compiles frames of its own modules, which 2.11 and 2.13 pass over
    assert ("PyTorch compiled nothing of Sequential" in told[-1]) == (torch_release() < (2, 15))
    assert any("more regions: likewise" in line for line in told)


def test_what_is_not_modelled_is_named(run):
    graphs = [line for line in run.report.not_modelled if "CUDA graphs" in line]

    assert len(graphs) == 1
    assert "torch.compile: code that runs on the host is traced as eager code" in run.report.not_modelled
