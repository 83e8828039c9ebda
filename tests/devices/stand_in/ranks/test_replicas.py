"""DistributedDataParallel and ZeRO-1 on one rank. All sizes by hand."""

import gc
import sys
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from small_models import LAYER, LAYERS, MIB, WIDTH, layers, train
from torch.nn.parallel import DistributedDataParallel

from pytest_membudget.devices.stand_in.values.variants import VARIANT
from pytest_membudget.devices.torch_parts import torch_release
from pytest_membudget.results.varied import LATE_WATCHDOG

WHOLE = LAYERS * LAYER


def replicated(settings):
    train(DistributedDataParallel(layers().cuda(), **settings), steps=3)


@pytest.mark.parametrize(
    ("settings", "legacy"),
    [({}, "0"), ({}, "1"), ({"static_graph": True}, "1")],
    ids=["legacy", "current", "static"],
)
def test_buckets_are_a_copy_of_all_gradients(trace, settings, legacy):
    """Whatever ProcessGroupNCCL's watchdog does meanwhile, and with both generations of it."""
    traced = trace(replicated, settings, world_size=2, environ={"TORCH_DIST_USE_NCCL2": legacy})

    assert traced.has(parameters=WHOLE, gradients=WHOLE, optimizer_states=2 * WHOLE)
    # a static graph's first steps have a map of used parameters too: one number each, padded
    assert 0 <= traced.collectives - WHOLE <= 512


def test_gradients_that_are_views_of_their_buckets_are_counted_once(trace):
    traced = trace(replicated, {"gradient_as_bucket_view": True}, world_size=2)

    assert traced.has(gradients=WHOLE, collectives=0)


def replicated_with_a_late_watchdog(settings, ends):
    VARIANT.begin(LATE_WATCHDOG, ())
    replicated(settings)
    if ends:
        dist.destroy_process_group()


@pytest.mark.parametrize("ends", [False, True])
def test_the_first_bucket_of_all_gradients_may_be_there_for_a_step_more(trace, ends):
    legacy = {"TORCH_DIST_USE_NCCL2": "0"}
    traced = trace(replicated_with_a_late_watchdog, {}, ends, world_size=2, environ=legacy)

    parts = {"parameters": WHOLE, "gradients": WHOLE, "optimizer_states": 2 * WHOLE}
    assert traced.has(**parts, collectives=2 * WHOLE)


@pytest.mark.skipif(torch_release() >= (2, 15), reason="a workspace of cuBLAS goes at once")
@pytest.mark.parametrize(("variant", "size"), [(0, 1_914_148_864), (LATE_WATCHDOG, 2_115_598_336)])
def test_both_runs_on_an_h100_are_those_of_the_two_ends(trace, variant, size):
    """benchmarks/measured: the step ``ddp``, bare, and measured; torch 2.11 adds a bias by cuBLASLt."""
    biases = MIB if torch_release() < (2, 12) else 0

    assert trace(the_step, variant, gpu="H100-80GB").allocated == size - MIB + biases


def the_step(variant):
    sys.path.insert(0, str(Path(__file__).parents[4]))
    from benchmarks.steps.features import distributed_data_parallel

    VARIANT.begin(variant, ())
    distributed_data_parallel(rows=4096, bucket_view=False)


def held_after(pause):
    """What is held of buckets once their model is gone; between two of them ``pause`` seconds go by."""
    model = DistributedDataParallel(layers(8).cuda())
    train(model, steps=2)
    for parameter in list(model.parameters())[:2]:
        parameter.register_post_accumulate_grad_hook(lambda parameter: time.sleep(pause))
    before = torch.cuda.memory_allocated()
    train(model, steps=1)
    model.zero_grad()
    del model, parameter
    gc.collect()
    return before - torch.cuda.memory_allocated()


def test_what_is_held_does_not_depend_on_when_the_watchdog_looks(trace):
    """It would let go of the first bucket, and the second one's reduction would free it."""
    legacy = {"TORCH_DIST_USE_NCCL2": "0"}
    quick, slow = (trace(held_after, pause, world_size=2, environ=legacy).value for pause in (0, 0.5))

    assert quick == slow


def bucket_sizes(settings):
    """Of the buckets that the last reduction is given, in its order."""
    given = []

    def reduce(state, bucket):
        given.append(bucket.buffer().nbytes)
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda future: future.value()[0])

    model = DistributedDataParallel(layers(8).cuda(), **settings)
    model.register_comm_hook(None, reduce)
    train(model, steps=2)
    given.clear()
    train(model, steps=1)
    return given


@pytest.mark.parametrize(
    ("settings", "sizes"),
    [
        # the first bucket is closed at 1 MiB (dist._DEFAULT_FIRST_BUCKET_BYTES), the others at 25 MiB
        ({}, [LAYER, 7 * LAYER]),
        ({"bucket_cap_mb": 8}, 4 * [2 * LAYER]),
    ],
)
def test_buckets_are_made_anew_after_the_first_backward(trace, settings, sizes):
    assert dist._DEFAULT_FIRST_BUCKET_BYTES == MIB
    assert trace(bucket_sizes, settings, world_size=2).value == sizes


def without_synchronising(settings):
    """Backwards that leave their gradients to later ones; the filler makes the peak."""
    model = DistributedDataParallel(layers().cuda(), **settings)
    x = torch.zeros(4, WIDTH, device="cuda")
    model(x).sum().backward()
    model.zero_grad()
    with model.no_sync():
        model(x).sum().backward()
        torch.empty(64 * WHOLE, dtype=torch.uint8, device="cuda")


@pytest.mark.parametrize("settings", [{}, {"gradient_as_bucket_view": True}])
def test_gradients_that_are_not_synchronised_are_gradients(trace, settings):
    traced = trace(without_synchronising, settings, world_size=2)

    assert traced.has(parameters=WHOLE, gradients=WHOLE)
