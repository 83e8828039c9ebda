"""Which component a storage belongs to, in the ways people write training code; figures by hand.

A layer of 512 x 512 numbers in fp32 is 1 MiB. The card is an A100, whose cuBLAS workspace is 8,519,680 bytes.
"""

import concurrent.futures
import contextlib
import copy
import threading
import time

import pytest
import torch
from torch import nn
from torch.nn.utils import prune
from torch.utils.checkpoint import checkpoint

from pytest_membudget.comparison.findings import explained
from pytest_membudget.devices.torch_parts import torch_release
from pytest_membudget.results.comparison import GROWN, Comparison

MIB = 2**20
WORKSPACE = 8_519_680
#: torch 2.15 gives cuBLAS workspaces back at the end of each operator
IS_KEPT = torch_release() < (2, 15)
BATCH = 512 * 4
#: What attention keeps of the random state from then on (test_compiled.py).
RANDOM_STATE = 0 if IS_KEPT else 16


def linear():
    return nn.Linear(512, 512, bias=False, device="cuda")


def layers(count):
    return nn.Sequential(*[linear() for _ in range(count)])


def batch(rows=1):
    return torch.randn(rows, 512, device="cuda")


def train(model, optimizer=None, rows=1, steps=2, after_step=lambda: None):
    for _ in range(steps):
        model(batch(rows)).sum().backward()
        if optimizer is not None:
            optimizer.step()
            after_step()
            optimizer.zero_grad()


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def adamw():
    model = layers(4)
    train(model, torch.optim.AdamW(model.parameters()))


def closure():
    model = linear()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def loss():
        optimizer.zero_grad()
        value = model(batch()).square().mean()
        value.backward()
        return value

    optimizer.step(loss)


class Scratching(torch.optim.SGD):
    """Makes a buffer of 16 MiB anew in each step, and keeps it until the next."""

    def step(self, closure=None):
        self.scratch = torch.zeros(4 * MIB, device="cuda")
        return super().step(closure)


def scratch_of_a_step():
    """The peak is in the second step: the new buffer beside the old one, which its backward found there."""
    model = linear()
    train(model, Scratching(model.parameters(), lr=0.1))


def loaded_states():
    """As trainers go on from a checkpoint: the peak is a backward before the first step."""
    first = linear()
    optimizer = torch.optim.AdamW(first.parameters())
    train(first, optimizer, steps=1)
    states = copy.deepcopy(optimizer.state_dict())
    del first, optimizer
    model = linear()
    optimizer = torch.optim.AdamW(model.parameters())
    optimizer.load_state_dict(states)
    del states
    torch.cuda.reset_peak_memory_stats()
    model(batch(4096)).sum().backward()


def parameters_outside_modules():
    weight = torch.randn(512, 512, device="cuda", requires_grad=True)
    optimizer = torch.optim.Adam([weight])
    train(lambda x: x @ weight, optimizer)


class Marked(nn.Parameter):
    """A parameter that becomes other data where it is moved, as bitsandbytes makes them."""

    def cuda(self, device=None, non_blocking=False):
        self.data = self.data.to("cuda").half()
        return self


def exchanged_data():
    module = nn.Module()
    module.weight = Marked(torch.ones(512, 512))
    module.cuda()
    (module.weight * 2).sum().backward()


def lora():
    base, down, up = (
        linear().requires_grad_(False),
        nn.Linear(512, 8, False, "cuda"),
        nn.Linear(8, 512, False, "cuda"),
    )
    adapters = nn.Sequential(down, up)
    train(lambda x: base(x) + adapters(x), torch.optim.AdamW(adapters.parameters()))


def teacher():
    """Two that are frozen, one by flag and one by no_grad."""
    by_flag, by_no_grad, student = linear().requires_grad_(False), linear(), linear()
    optimizer = sgd(student)
    for _ in range(2):
        x = batch(512)
        with torch.no_grad():
            target = by_no_grad(by_flag(x))
        (student(x) - target).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def moved_and_not_run():
    nn.Sequential(nn.Linear(512, 512, False), nn.Linear(512, 512, False).requires_grad_(False)).cuda()


def buffers():
    module = nn.BatchNorm1d(1024, device="cuda")
    module(torch.randn(2, 1024, device="cuda")).sum().backward()


def pruned():
    layer = linear()
    prune.l1_unstructured(layer, "weight", amount=0.3)
    layer(batch()).sum().backward()


def forward_and_backward():
    """Each GELU keeps its input, each linear its own: the batch or the GELU's output before it, 1 MiB each.

    The peak is in the backward of the last linear, where the last GELU's input is gone: 7 inputs of GELUs
    and 7 outputs are left, and the gradients of the linear's output, its input and its weight are there.
    """
    model = nn.Sequential(*[layer for _ in range(8) for layer in (linear(), nn.GELU())])
    model(batch(512)).sum().backward()


def recomputed():
    """Of 4 MiB each: outputs of 7 blocks, and what one block of two operators keeps."""
    blocks = nn.ModuleList(nn.Sequential(linear(), nn.GELU()) for _ in range(8))
    x = torch.randn(2048, 512, device="cuda", requires_grad=True)
    for block in blocks:
        x = checkpoint(block, x, use_reentrant=False)
    x.sum().backward()


def attention_without_a_module():
    """8 heads of 64 by 512 positions are 1 MiB in fp32; also the sums, the loss, its gradient."""
    query, key, value = (torch.randn(1, 8, 512, 64, device="cuda", requires_grad=True) for _ in range(3))
    nn.functional.scaled_dot_product_attention(query, key, value).sum().backward()


def joined_outputs():
    model = linear()
    torch.cat([model(batch(512)) for _ in range(2)]).sum().backward()


def step_in_a_thread():
    def run():
        model = linear()
        train(model, torch.optim.AdamW(model.parameters()))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def lazy():
    model = nn.LazyLinear(512, bias=False).cuda()
    model(batch())
    train(model, torch.optim.AdamW(model.parameters()))


def loaded_in_a_thread():
    kept = []
    thread = threading.Thread(target=lambda: kept.append(batch(512)))
    thread.start()
    thread.join()


def sparse_gradients():
    """A table of 64 MiB; beside a gradient's rows, the one before it and their sum, rows' numbers in int64.

    ``s_add_out_sparse_sparse_cuda`` (native/sparse/cuda/SparseCUDATensorMath.cu) concatenates both. The
    gradient before is that of the first rows, and has their numbers.
    """
    table = nn.Embedding(2**16, 256, sparse=True, device="cuda")
    for _ in range(2):
        rows = table(torch.arange(2**16, device="cuda"))
        rows.backward(torch.ones_like(rows))


#: Of each body components in bytes.
CASES = [
    # CUDA's default is foreach: one list of square roots, as large as the model; backward's last product,
    # with the workspace that it gives back, takes more
    (
        adamw,
        {"optimizer_states": 8 * MIB, "temporaries": 4 * MIB, "workspaces": 2 * WORKSPACE}
        if IS_KEPT
        else {"optimizer_states": 8 * MIB, "temporaries": BATCH, "workspaces": WORKSPACE},
    ),
    (closure, {"parameters": MIB}),
    (scratch_of_a_step, {"parameters": MIB, "gradients": MIB, "temporaries": 32 * MIB, "activations": 0}),
    (loaded_states, {"parameters": MIB, "optimizer_states": 2 * MIB}),
    (parameters_outside_modules, {"parameters": MIB, "gradients": MIB, "optimizer_states": 2 * MIB}),
    (exchanged_data, {"parameters": MIB // 2}),
    (
        lora,
        {"frozen_parameters": MIB, "parameters": 2 * 8 * BATCH, "gradients": 2 * 8 * BATCH,
         "optimizer_states": 2 * 2 * 8 * BATCH},
    ),
    (teacher, {"frozen_parameters": 2 * MIB, "parameters": MIB}),
    (moved_and_not_run, {"parameters": MIB, "frozen_parameters": MIB}),
    (buffers, {"buffers": 2 * 4096 + 8}),  # running mean and variance, and the number of batches
    (pruned, {"parameters": 2 * MIB, "buffers": MIB}),  # what was there, and what the mask leaves of it
    (
        forward_and_backward,
        {"activations": 14 * MIB + 2 * 4, "inputs": MIB, "temporaries": 2 * MIB, "gradients": MIB},
    ),
    (attention_without_a_module, {"inputs": 3 * MIB, "activations": MIB + 8 * BATCH + 2 * 4 + RANDOM_STATE}),
    (joined_outputs, {"inputs": 2 * MIB}),
    (step_in_a_thread, {"parameters": MIB, "gradients": MIB, "optimizer_states": 2 * MIB}),
    (lazy, {"parameters": MIB, "gradients": MIB, "optimizer_states": 2 * MIB}),
    (loaded_in_a_thread, {"inputs": MIB, "unattributed": 0}),
    (sparse_gradients, {"parameters": 64 * MIB, "gradients": 3 * (64 * MIB + 8 * 2**16)}),
]  # fmt: skip


@pytest.mark.parametrize(("body", "components"), CASES)
def test_components(trace, body, components):
    assert trace(body).has(**components)


def test_a_checkpoint_keeps_blocks_inputs_and_what_one_block_keeps(trace):
    assert 8 * 4 * MIB <= trace(recomputed).activations <= (7 + 2) * 4 * MIB + 2 * 4


# Copies of parameters that no module registers; of trained ones: test_computed_from_parameters.py


def copied_without_training():
    model = nn.Linear(512, 512, device="cuda", dtype=torch.bfloat16)
    model.register_buffer("table", torch.ones(MIB, device="cuda"))
    kept = [value.float() for value in model.state_dict().values() if value.dtype == torch.bfloat16]
    snapshot = model.state_dict()["table"].clone()
    model(torch.randn(4, 512, device="cuda", dtype=torch.bfloat16))
    return len(kept), len(snapshot)


def test_a_copy_without_training_is_parameters_or_buffers(trace):
    sizes = {"parameters": 3 * (512 * 512 + 512) * 2, "buffers": 2 * 4 * MIB, "frozen_parameters": 0}
    assert trace(copied_without_training).has(**sizes, inputs=4 * 512 * 2)


def others_copied():
    model = linear()
    optimizer, x = sgd(model), batch(512)
    for _ in range(2):
        again = x.clone()  # of a weight's size
        for parameter in model.parameters():
            optimizer.state[parameter]["slow"] = parameter.detach().clone()
            parameter.grad = parameter.detach().clone()
            noise = parameter.detach().clone().double().norm()  # memory that the next tensor takes
        model(again + batch(512)).sum().backward()
        optimizer.step()
    return noise.shape


def test_what_has_another_purpose_keeps_it(trace):
    """A gradient and an optimizer's state are copies of the weight; batches have the weight's size."""
    traced = trace(others_copied)

    assert traced.has(parameters=MIB, gradients=MIB, optimizer_states=MIB, frozen_parameters=0)
    assert traced.inputs >= 3 * MIB


def compiled_with_a_copy():
    model, graphs = linear(), []

    def step(values):
        return model(values) @ model.weight.clone().to(torch.float32)

    def counted(graph, inputs):
        graphs.append(sum(node.op.startswith("call") for node in graph.graph.nodes))
        return graph.forward

    average = [weight.detach().clone() for weight in model.parameters()]
    torch.compile(step, backend=counted, fullgraph=True)(batch(4)).sum().backward()
    return [graphs, len(average)]


def test_a_compiled_step_has_the_same_graph(trace):
    """One graph of four operators: clone, linear, to, matmul."""
    traced = trace(compiled_with_a_copy)

    assert traced.value == [[4], 1]
    assert traced.frozen_parameters == MIB


CALLED = []


class Seeing(torch.Tensor):
    """A tensor that lists the functions that are called with it."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        CALLED.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


def copies_of_a_subclass():
    one = torch.ones(3, device="cuda").as_subclass(Seeing)
    CALLED.clear()
    one.clone()
    one.to(torch.float16)
    one.copy_(one)
    return CALLED


def test_a_subclass_sees_the_users_calls_alone(trace):
    assert trace(copies_of_a_subclass).value == ["clone", "to", "copy_"]


# Holders: module, line, operator


def clipped():
    """The norm of the first step is still there at the peak, in the second step's backward."""
    model = layers(4)
    optimizer = sgd(model)
    for _ in range(2):
        model(batch()).sum().backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.reset_peak_memory_stats()
    return norm.dim()


def listed_norms():
    """Before the step: 4 temporary numbers, where the filler makes the peak."""
    model = layers(4)
    model(batch()).sum().backward()
    norms = torch._foreach_norm([parameter.grad for parameter in model.parameters()])
    filler = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    sgd(model).step()
    return len(norms), filler.numel()


@pytest.mark.parametrize(("body", "bytes_", "inputs"), [(clipped, 4, BATCH), (listed_norms, 4 * 4, 64 * MIB)])
def test_norms_of_gradients_are_temporaries_and_no_inputs(trace, body, bytes_, inputs):
    traced = trace(body)

    (norm,) = (holder for holder in traced.report.holders if "norm" in holder.operator)
    assert (norm.component, norm.bytes) == ("temporaries", bytes_)
    assert traced.inputs == inputs


class Fails(nn.Module):
    def forward(self, x):
        raise RuntimeError("not today")


def raising_modules():
    model = nn.Sequential(linear(), Fails())
    for _ in range(2):
        with contextlib.suppress(RuntimeError):
            model(batch())
    linear()(batch(512)).sum().backward()


def test_a_module_that_raises_leaves_no_trace_in_later_paths(trace):
    holders = trace(raising_modules).report.holders

    assert {holder.module for holder in holders if holder.component == "gradients"} == {"weight"}


def holders_by_line():
    layers(2)(batch(512)).sum().backward()


def test_holders_name_module_line_and_operator(trace):
    holders = trace(holders_by_line).report.holders

    weights = next(holder for holder in holders if holder.component == "parameters")
    assert (weights.module, weights.count, weights.bytes) == ("*.weight", 2, 2 * MIB)
    assert weights.location.startswith("test_components.py:")
    assert weights.operator.startswith("aten::empty")


# The phases' peaks, and what a comparison makes of them


def loss_of(dtype):
    hidden = torch.randn(1024, 4096, device="cuda", dtype=torch.bfloat16, requires_grad=True)  # 8 MiB
    logits = hidden * 2
    labels = torch.zeros(1024, dtype=torch.long, device="cuda")
    torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")  # of the forward alone
    nn.functional.cross_entropy(logits.to(getattr(torch, dtype)), labels).backward()


def test_a_loss_in_fp32_moves_the_peak_to_the_backward_and_is_the_first_row(trace):
    """Forward: 8 + 8 + 30 MiB, or 8 + 8 + 16 + 16; then log_softmax's result, its gradient, its input's."""
    base, head = (trace(loss_of, dtype).report for dtype in ("bfloat16", "float32"))
    assert (base.phase, base.peak_bytes // MIB) == ("forward", 2 * 8 + 30)
    assert (head.phase, head.peak_bytes // MIB) == ("backward", 2 * 8 + 3 * 16)
    assert [(one.phase, one.peak_bytes // MIB) for one in head.phases] == [("forward", 2 * 8 + 2 * 16)]

    first, *others = explained(Comparison(GROWN), head, base).findings
    assert (first.bytes, first.component, first.operator) == (8 * MIB, "activations", "aten::_log_softmax")
    assert first.source == "nn.functional.cross_entropy(logits.to(getattr(torch, dtype)), labels).backward()"
    assert [(one.bytes, one.component, one.phase) for one in others] == 2 * [
        (8 * MIB, "temporaries", "backward")
    ]


# Threads: libraries load weights and move batches in pools of them


def loaded_in_a_pool():
    weights = [torch.zeros(512, 512) for _ in range(16)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        on_device = list(pool.map(lambda weight: weight.to("cuda", torch.bfloat16) + 1, weights))
        values = list(pool.map(lambda n: torch.tensor([n, 2], device="cuda").tolist(), range(2)))
    return {str(tensor.device) for tensor in on_device} == {"cuda:0"}, values, torch.cuda.memory_allocated()


def test_a_pool_of_threads_loads_weights(trace):
    assert trace(loaded_in_a_pool).value == [True, [[0, 2], [1, 2]], 8 * MIB]


def handed_over_by_a_pool():
    both = threading.Barrier(2)

    def load(number):
        time.sleep(0.05 * number)
        return torch.zeros(512, 1024, device="cuda")

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        loading = [pool.submit(load, number) for number in range(4)]
        while loading:
            loading.pop(0).result()
        met = [*pool.map(lambda _: both.wait(10) >= 0, range(2))]
    return met, torch.cuda.max_memory_allocated()


def test_what_a_pool_of_threads_gives_is_there_before_it_is_used(trace):
    """As a load is that is faster than what uses it: how fast each is here, nobody knows."""
    traced = trace(handed_over_by_a_pool)

    assert traced.value == [[True, True], 4 * 2 * MIB]
    assert not any("pool of threads" in one.text for one in traced.report.caveats)


def freed_in_a_pool():
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: torch.zeros(512, 1024, device="cuda").sum().item(), range(2)))
    return torch.cuda.max_memory_allocated()


def test_jobs_that_free_memory_are_taken_to_run_one_after_another(trace):
    traced = trace(freed_in_a_pool)

    assert traced.value < 2 * 2 * MIB
    assert [one.cause.name for one in traced.report.caveats if "pool of threads" in one.text] == ["pool"]
