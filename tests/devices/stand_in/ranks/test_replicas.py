"""DistributedDataParallel and ZeRO-1 on one rank. All sizes by hand."""

import pytest
import torch
import torch.distributed as dist
from small_models import LAYER, LAYERS, MIB, WIDTH, layers, train
from torch.nn.parallel import DistributedDataParallel

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
