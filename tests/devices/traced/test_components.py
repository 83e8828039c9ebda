"""Which component a storage belongs to, in the ways people write training code; figures by hand."""

import contextlib
import copy

import pytest
import torch
from torch import nn

from pytest_membudget.comparison.findings import explained
from pytest_membudget.results.comparison import GROWN, Comparison

MIB = 2**20
RELEASE = tuple(map(int, torch.__version__.split(".")[:2]))


def linear(bias=False):
    """1 MiB of weights."""
    return nn.Linear(512, 512, bias=bias, device="cuda")


def batch(rows=1):
    return torch.randn(rows, 512, device="cuda")


def ema_copy():
    model = linear()
    average = copy.deepcopy(model)
    average.requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        model(batch()).sum().backward()
        optimizer.step()
        with torch.no_grad():
            for mine, theirs in zip(average.parameters(), model.parameters(), strict=True):
                mine.lerp_(theirs, 0.1)
        optimizer.zero_grad()


def test_a_moving_average_is_frozen(trace):
    traced = trace(ema_copy)

    assert traced.parameters == MIB
    assert traced.frozen_parameters == MIB


class Lora(nn.Module):
    def __init__(self, base, rank):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(512, rank, bias=False, device="cuda")
        self.up = nn.Linear(rank, 512, bias=False, device="cuda")

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def lora():
    model = nn.Sequential(*[Lora(linear(), 8) for _ in range(4)])
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    for _ in range(2):
        model(batch()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def test_a_lora_base_is_frozen_and_has_no_gradients(trace):
    traced = trace(lora)

    adapters = 4 * 2 * 8 * 512 * 4
    assert traced.frozen_parameters == 4 * MIB
    assert traced.parameters == traced.gradients == adapters
    assert traced.optimizer_states == 2 * adapters


@pytest.mark.parametrize(
    ("name", "states"),
    [("SGD", 0), ("Adagrad", 1), ("RMSprop", 1), ("Adam", 2), ("NAdam", 2), ("Adamax", 2), ("ASGD", 1)],
)
def test_optimizers_hold_their_states(trace, name, states):
    traced = trace(steps_of, name)

    # some keep their step count, and numbers that they work with, on the device: 4 bytes each
    assert traced.optimizer_states == pytest.approx(states * 4 * MIB, abs=256)


def steps_of(name):
    model = nn.Sequential(*[linear() for _ in range(4)])
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.1)
    for _ in range(2):
        model(batch()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def loaded_states():
    """As trainers go on from a checkpoint: the peak is a backward before the first step."""
    first = linear()
    optimizer = torch.optim.AdamW(first.parameters())
    first(batch()).sum().backward()
    optimizer.step()
    states = copy.deepcopy(optimizer.state_dict())
    del first, optimizer
    model = linear()
    optimizer = torch.optim.AdamW(model.parameters())
    optimizer.load_state_dict(states)
    del states
    torch.cuda.reset_peak_memory_stats()
    model(batch(4096)).sum().backward()


def test_states_that_were_loaded_are_the_optimizers(trace):
    traced = trace(loaded_states)

    assert traced.optimizer_states == 2 * MIB
    assert traced.parameters == MIB


def momentum():
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        model(batch()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def test_momentum_is_one_state(trace):
    assert trace(momentum).optimizer_states == MIB


def closure_optimizer():
    model = linear()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = model(batch()).square().mean()
        loss.backward()
        return loss

    optimizer.step(closure)


def test_an_optimizer_that_reads_its_loss_ends(trace):
    traced = trace(closure_optimizer)

    assert traced.parameters == MIB
    assert any("float32" in text for text in traced.report.assumptions)


def parameters_outside_modules():
    weight = torch.randn(512, 512, device="cuda", requires_grad=True)
    optimizer = torch.optim.Adam([weight])
    for _ in range(2):
        (batch() @ weight).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def test_what_an_optimizer_holds_is_a_parameter(trace):
    traced = trace(parameters_outside_modules)

    assert traced.parameters == traced.gradients == MIB
    assert traced.optimizer_states == 2 * MIB


def attention_without_a_module():
    query, key, value = (torch.randn(1, 8, 512, 64, device="cuda", requires_grad=True) for _ in range(3))
    nn.functional.scaled_dot_product_attention(query, key, value).sum().backward()


def test_what_a_function_saves_for_backward_is_an_activation(trace):
    """8 heads of 64 by 512 positions are 1 MiB in fp32."""
    traced = trace(attention_without_a_module)

    logsumexp, loss, its_gradient = 8 * 512 * 4, 4, 4
    assert traced.inputs == 3 * MIB
    # the random state that dropout would use is two numbers of 8 bytes, on the device on CUDA builds
    assert traced.activations - (MIB + logsumexp + loss + its_gradient) in (0, 16)


def two_backwards():
    model = linear()
    loss = model(batch(512)).sum()
    loss.backward(retain_graph=True)
    loss.backward()


def test_a_second_backward_adds_to_the_gradient(trace):
    traced = trace(two_backwards)

    assert traced.gradients == MIB
    assert traced.temporaries >= MIB  # the second gradient, until it is added


def clipped():
    model = nn.Sequential(*[linear() for _ in range(4)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        model(batch()).sum().backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.reset_peak_memory_stats()
    return norm.dim()


def test_norms_of_gradients_are_temporaries(trace):
    """The norm of the first step is still there at the peak, in the second step's backward."""
    traced = trace(clipped)

    (norm,) = (holder for holder in traced.report.holders if "norm" in holder.operator)
    assert (norm.component, norm.bytes) == ("temporaries", 4)
    assert traced.inputs == 512 * 4


def gradient_penalty():
    model = nn.Sequential(linear(), nn.Tanh(), linear())
    x = batch(512).requires_grad_()
    (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    slope.square().mean().backward()


def test_a_gradient_of_a_gradient_runs(trace):
    traced = trace(gradient_penalty)

    assert traced.parameters == 2 * MIB
    assert traced.gradients <= 3 * MIB


def kept_losses():
    model, losses = linear(), []
    for _ in range(3):
        losses.append(model(batch(512)).square())  # the whole graph stays with it
    return len(losses)


def test_graphs_that_the_user_keeps_are_activations(trace):
    """Of each step: the batch (an input), the output that the square saved, and the square: 1 MiB each.

    From torch 2.15 on the peak is within the last product, whose workspace is there for it alone: before
    the last square.
    """
    traced = trace(kept_losses)

    assert traced.inputs == 3 * MIB
    assert traced.activations + traced.temporaries == (6 if RELEASE < (2, 15) else 5) * MIB


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = linear()

    def forward(self, x, cache):
        cache.append(self.project(x))
        return cache[-1].sum()


def key_value_cache():
    model, cache = Cached(), []
    with torch.no_grad():
        for _ in range(4):
            model(batch(512), cache)


def test_what_a_module_leaves_with_its_caller_is_an_activation(trace):
    traced = trace(key_value_cache)

    assert traced.activations >= 3 * MIB  # the fourth is being made, or made, at the peak


class Fails(nn.Module):
    def forward(self, x):
        raise RuntimeError("not today")


def raising_modules():
    model = nn.Sequential(linear(), Fails())
    for _ in range(2):
        with contextlib.suppress(RuntimeError):
            model(batch())
    other = linear()
    other(batch(512)).sum().backward()


def test_a_module_that_raises_leaves_no_trace_in_later_paths(trace):
    traced = trace(raising_modules)

    modules = {holder.module for holder in traced.report.holders if holder.component == "gradients"}
    assert modules == {"weight"}


def holders_by_line():
    model = nn.Sequential(linear(), linear())
    output = model(batch(512))
    output.sum().backward()


def test_holders_name_module_line_and_operator(trace):
    traced = trace(holders_by_line)

    weights = next(holder for holder in traced.report.holders if holder.component == "parameters")
    assert weights.module == "*.weight"
    assert weights.count == 2
    assert weights.bytes == 2 * MIB
    assert weights.location.startswith("test_components.py:")
    assert weights.operator.startswith("aten::empty")


# The phases' peaks, and what a comparison makes of them


def loss_of(dtype):
    hidden = torch.randn(1024, 4096, device="cuda", dtype=torch.bfloat16, requires_grad=True)  # 8 MiB
    logits = hidden * 2
    labels = torch.zeros(1024, dtype=torch.long, device="cuda")
    torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")  # of the forward alone
    nn.functional.cross_entropy(logits.to(dtype), labels).backward()


def loss_in_bf16():
    loss_of(torch.bfloat16)


def loss_in_fp32():
    loss_of(torch.float32)


def test_a_loss_in_fp32_moves_the_peak_to_the_backward_and_is_the_first_row(trace):
    """Forward: 8 + 8 + 30 MiB, or 8 + 8 + 16 + 16; then log_softmax's result, its gradient, its input's."""
    base, head = (trace(body).report for body in (loss_in_bf16, loss_in_fp32))
    assert (base.phase, base.peak_bytes // MIB) == ("forward", 2 * 8 + 30)
    assert (head.phase, head.peak_bytes // MIB) == ("backward", 2 * 8 + 3 * 16)
    assert [(one.phase, one.peak_bytes // MIB) for one in head.other_phases] == [("forward", 2 * 8 + 2 * 16)]

    first, *others = explained(Comparison(GROWN), head, base).findings
    assert (first.bytes, first.component, first.operator) == (8 * MIB, "activations", "aten::_log_softmax")
    assert first.source == "nn.functional.cross_entropy(logits.to(dtype), labels).backward()"
    assert [(one.bytes, one.component, one.phase) for one in others] == 2 * [
        (8 * MIB, "temporaries", "backward")
    ]
