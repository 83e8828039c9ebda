"""What asynchronous collectives have used that nobody waits for, but for their futures. All sizes by hand."""

import pytest
import torch
import torch.distributed as dist
from small_models import LAYER, WIDTH, layers, train
from torch.nn.parallel import DistributedDataParallel

from pytest_membudget.devices.stand_in.values.variants import VARIANT
from pytest_membudget.results.varied import LATE_WATCHDOG

#: Of each reduction: a gradient, and the half of it that this rank gets.
STEP = LAYER + LAYER // 2
LEGACY = {"TORCH_DIST_USE_NCCL2": "0"}


def reduced(steps, waits, variant=0, backwards=1, compiles=False):
    """What is allocated after ``steps`` that each reduce a gradient, and a last backward."""
    VARIANT.begin(variant, ())
    layer = torch.nn.Linear(WIDTH, WIDTH, bias=False, device="cuda")
    for _ in range(steps):
        for _ in range(backwards):
            layer(torch.ones(8, WIDTH, device="cuda")).sum().backward()
        if compiles:
            torch._dynamo.utils.counters["stats"]["unique_graphs"] += 1
        own = torch.empty(WIDTH // 2, WIDTH, device="cuda")
        gradient = layer.weight.grad if backwards else torch.empty(WIDTH, WIDTH, device="cuda")
        work = dist.reduce_scatter_tensor(own, gradient, async_op=True)
        if waits:
            work.wait()
        else:
            work.get_future().wait()
        del work, own, gradient
        layer.weight.grad = None
    layer(torch.ones(8, WIDTH, device="cuda")).sum().backward()
    return torch.cuda.memory_allocated()


@pytest.fixture
def held(trace):
    """By how much more is allocated where only futures are waited for."""

    def more(steps, variant=0, backwards=1, compiles=False):
        further = (variant, backwards, compiles)
        futures, works = (
            trace(reduced, steps, waits, *further, world_size=2, environ=LEGACY).value
            for waits in (False, True)
        )
        return futures - works

    return more


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_what_a_step_has_reduced_is_held_until_the_next(held, steps):
    """However many there were: the watchdog looks before each step's first collective."""
    assert held(steps) == STEP


def test_a_late_watchdog_lets_go_of_it_a_step_later(held):
    assert held(2, LATE_WATCHDOG) == 2 * STEP
    assert held(6, LATE_WATCHDOG) == 2 * STEP


def test_a_late_watchdog_has_looked_where_something_was_compiled_since(held):
    assert held(6, LATE_WATCHDOG, compiles=True) == STEP


def test_without_a_backward_between_them_all_are_held(held):
    """They take less than the watchdog's 100 ms."""
    assert held(3, backwards=0) == 3 * STEP


def gathered(steps):
    """Each step gathers its losses in a list: what is copied on the way is freed at once."""
    layer = torch.nn.Linear(WIDTH, WIDTH, bias=False, device="cuda")
    for _ in range(steps):
        loss = layer(torch.ones(8, WIDTH, device="cuda")).sum()
        loss.backward()
        losses = [torch.empty(1024, device="cuda") for _ in range(2)]
        dist.all_gather(losses, loss.detach().expand(1024).contiguous())


def replicated(models):
    for model in [DistributedDataParallel(layers().cuda()) for _ in range(models)]:
        train(model, steps=4)


@pytest.mark.parametrize(
    ("body", "args", "unknown", "names_steps"),
    [
        (reduced, (3, False), 1, True),
        (reduced, (1, False), 0, False),
        (reduced, (3, True), 0, False),
        (gathered, (4,), 0, False),
        (replicated, (2,), 1, False),
    ],
)
def test_how_long_steps_are_is_named_and_another_run_made_where_it_matters(
    trace, body, args, unknown, names_steps
):
    traced = trace(body, *args, world_size=2, environ=LEGACY)

    assert len([one for one in traced.unknown if "watchdog" in one]) == unknown
    assert any("100 ms" in one.text for one in traced.report.caveats) == names_steps
