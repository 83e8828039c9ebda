"""DistributedDataParallel and ZeRO-1 on one rank. All sizes by hand."""

import pytest
import torch
import torch.distributed as dist
from small_models import LAYER, LAYERS, MIB, layers, train
from torch.nn.parallel import DistributedDataParallel

WHOLE = LAYERS * LAYER


def replicated(**settings):
    model = layers().cuda()
    train(DistributedDataParallel(model, **settings), steps=3)


def plain():
    replicated()


def with_views():
    replicated(gradient_as_bucket_view=True)


def static():
    replicated(static_graph=True)


@pytest.mark.parametrize("legacy", ["0", "1"], ids=["legacy", "current"])
@pytest.mark.parametrize("body", [plain, static])
def test_buckets_are_a_copy_of_all_gradients(trace, body, legacy):
    """Whatever ProcessGroupNCCL's watchdog does meanwhile, and with both generations of it."""
    traced = trace(body, world_size=2, environ={"TORCH_DIST_USE_NCCL2": legacy})

    assert traced.parameters == traced.gradients == WHOLE
    assert traced.optimizer_states == 2 * WHOLE
    # a static graph's first steps have a map of used parameters too: one number each, padded
    assert 0 <= traced.collectives - WHOLE <= 512


def test_gradients_that_are_views_of_their_buckets_are_counted_once(trace):
    traced = trace(with_views, world_size=2)

    assert traced.gradients == WHOLE
    assert traced.collectives == 0


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


def without_sync():
    model = DistributedDataParallel(layers().cuda())
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        with model.no_sync():
            model(torch.randn(16, 1024, device="cuda")).sum().backward()
        model(torch.randn(16, 1024, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def test_accumulation_without_sync_holds_the_same(trace):
    traced = trace(without_sync, world_size=2)

    assert traced.gradients == traced.collectives == WHOLE


def zero_redundancy(count):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DistributedDataParallel(layers(count).cuda())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW)
    train(model, optimizer)


@pytest.mark.parametrize(("rank", "mine"), [(0, 2), (1, 1), (2, 1)])
def test_zero_1_has_the_states_of_the_ranks_own_parameters(trace, rank, mine):
    # four layers over three ranks: the first takes the fourth
    traced = trace(zero_redundancy, 4, rank=rank, world_size=3)

    assert traced.parameters == traced.gradients == traced.collectives == WHOLE
    assert traced.optimizer_states == 2 * mine * LAYER
