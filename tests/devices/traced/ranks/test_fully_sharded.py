"""FSDP2 and FSDP1 on one rank: its shards, and what their collectives hold. All sizes by hand."""

import pytest
import torch
import torch.distributed as dist
from small_models import LAYER, LAYERS, MIB, WORKSPACE, layers, train
from torch import nn

from pytest_membudget.devices.torch_parts import torch_release


def fully_sharded(how="plain", after_forward=True, steps=2):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    settings = {"reshard_after_forward": after_forward}
    if how == "mixed":
        settings["mp_policy"] = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    if how == "hybrid":
        settings["mesh"] = init_device_mesh("cuda", (2, 4), mesh_dim_names=("replicate", "shard"))
    model = layers().cuda()
    for layer in model:
        fully_shard(layer, **settings)
    fully_shard(model, **settings)
    train(model, steps=steps)
    return torch.cuda.memory_allocated()


def test_a_rank_holds_its_shards_and_two_gathered_layers(trace):
    traced = trace(fully_sharded, world_size=8)

    whole = LAYERS * LAYER
    assert traced.parameters == whole // 8
    assert traced.optimizer_states == 2 * whole // 8
    # in backward: the layer's whole parameter, the next one's all-gather, and the reduce-scatter of the one
    # before, whose shard of a gradient is there
    assert traced.collectives == 3 * LAYER
    # the layer's whole gradient, and two shards: the second of the last layer, or of the layer before
    assert traced.gradients in (LAYER + LAYER // 8, LAYER + 2 * LAYER // 8)
    assert traced.report.rank == 0


def test_nothing_whole_is_left_after_the_steps(trace):
    left = trace(fully_sharded, world_size=8).value

    # the optimizer and its states went with the function that made them
    assert left == LAYERS * LAYER // 8 + 2 * WORKSPACE  # forward's and backward's


@pytest.mark.parametrize("rank", [0, 3, 7])
def test_even_shards_are_the_same_on_every_rank(trace, rank):
    traced, first = trace(fully_sharded, rank=rank, world_size=8), trace(fully_sharded, world_size=8)

    assert traced.report.components == first.report.components
    assert traced.report.rank == rank


def test_mixed_precision_gathers_in_bf16_and_reduces_in_fp32(trace):
    traced = trace(fully_sharded, "mixed", world_size=8)

    assert traced.parameters == LAYERS * LAYER // 8
    assert traced.collectives == LAYER // 2 + LAYER // 2 + LAYER


def test_parameters_that_stay_whole_after_forward_are_of_the_collectives(trace):
    traced = trace(fully_sharded, "plain", False, world_size=8)

    assert traced.parameters == LAYERS * LAYER // 8
    if torch_release() < (2, 15):
        # when the last layer's parameter is copied out: four are whole, and there are the all-gathers of the
        # last two layers (wait_for_unshard has the one before in a local variable until it returns)
        assert traced.collectives == 4 * LAYER + 2 * LAYER
    else:
        # it lets go of the one before first; more is there in backward, when the last layer but one has its
        # gradient: three parameters are whole, and the last layer's gradient is being reduced
        assert traced.collectives == 3 * LAYER + LAYER
        assert traced.gradients == LAYER + LAYER // 8


def test_parameters_that_are_sharded_anew_after_forward(trace):
    traced = trace(fully_sharded, "plain", 2, world_size=8)

    halves = LAYERS * LAYER // 2
    assert traced.parameters == LAYERS * LAYER // 8
    assert traced.collectives >= 3 * LAYER  # as above, and the halves of layers whose turn is to come
    assert traced.collectives <= 3 * LAYER + halves


def test_hybrid_sharding_shards_over_one_dimension_of_the_mesh(trace):
    traced = trace(fully_sharded, "hybrid", world_size=8)

    assert traced.parameters == LAYERS * LAYER // 4
    assert traced.optimizer_states == 2 * LAYERS * LAYER // 4


def test_collectives_have_streams_and_so_pools_of_their_own(trace):
    sharded = trace(fully_sharded, world_size=8, metric="reserved")

    # the all-gathers' memory is cached for its streams, and no use to the optimizer's temporaries
    assert sharded.cached >= 2 * LAYER


def uneven(rows):
    from torch.distributed.fsdp import fully_shard

    model = nn.Sequential(nn.Linear(256, rows, bias=False)).cuda()
    fully_shard(model)
    train(model, width=256)
    return next(model.parameters()).to_local().numel() * 4


@pytest.mark.parametrize(("rank", "rows"), [(0, 4), (2, 4), (3, 1)])
def test_torch_chunk_gives_the_first_ranks_the_most(trace, rank, rows):
    # 13 rows over 4 ranks: 4, 4, 4, 1
    assert trace(uneven, 13, rank=rank, world_size=4).value == rows * 256 * 4


def from_meta():
    from torch.distributed.fsdp import fully_shard

    with torch.device("meta"):
        model = layers()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device="cuda")
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(16, 1024, device="cuda")).sum().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return [str(next(model.parameters()).device), torch.cuda.memory_allocated()]


def test_a_model_made_on_meta_never_is_whole(trace):
    traced = trace(from_meta, rank=1, world_size=8)

    assert traced.value[0] == "cuda:1"
    assert traced.parameters == LAYERS * LAYER // 8
    assert traced.report.host is None


def offloaded(pin=True, rows=16):
    from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard

    with torch.device("meta"):
        model = layers()
    for layer in model:
        fully_shard(layer, offload_policy=CPUOffloadPolicy(pin_memory=pin))
    fully_shard(model, offload_policy=CPUOffloadPolicy(pin_memory=pin))
    model.to_empty(device="cpu")
    train(model, rows=rows)
    return torch.cuda.memory_allocated()


@pytest.mark.parametrize("pin", [True, False])
def test_offloaded_shards_are_the_hosts(trace, pin):
    traced = trace(offloaded, pin, world_size=8)

    shards = LAYERS * LAYER // 8
    host = traced.report.host
    assert traced.parameters == traced.optimizer_states == 0
    assert traced.value == 2 * WORKSPACE  # and nothing else
    assert (host.kind, host.metric, host.rank) == ("traced", "allocated", 0)
    assert host.components["parameters"] == host.components["gradients"] == shards
    # two states, and AdamW's step counts: a number of 4 bytes for each of four parameters
    assert host.components["optimizer_states"] == 2 * shards + 4 * LAYERS
    assert sum(host.components.values()) == host.peak.allocated_bytes


def three_rows_pinned():
    kept = torch.empty(3 * MIB, dtype=torch.uint8).pin_memory()
    return kept.is_pinned()


def test_pinned_memory_comes_in_powers_of_two(trace):
    traced = trace(three_rows_pinned)

    assert traced.value is True
    # while it is copied there are both: 3 MiB pageable, and 4 MiB pinned
    assert traced.report.host.peak.allocated_bytes == 7 * MIB


def wrapped():
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    model = FullyShardedDataParallel(
        layers().cuda(), auto_wrap_policy=ModuleWrapPolicy({nn.Linear}), use_orig_params=True
    )
    train(model)


def test_fsdp1_shards_flat_parameters(trace):
    traced = trace(wrapped, world_size=8)

    assert traced.parameters == LAYERS * LAYER // 8
    assert traced.optimizer_states == 2 * LAYERS * LAYER // 8
    assert traced.collectives >= LAYER


def groups_of_nccl():
    dist.all_reduce(torch.ones(1, device="cuda"))


def test_nccl_is_counted_for_the_metric_device(trace):
    quiet = trace(who_is_quiet, world_size=8, metric="device", gpu="H100-80GB")
    loud = trace(groups_of_nccl, world_size=8, metric="device", gpu="H100-80GB")

    assert quiet.nccl == 0
    # by hand for 8 H100 (``nccl``): 192 MiB of kernels; (3 x 32 + 2 + 17) granules of 2 MiB at the setup;
    # 24 rings and as many trees of 12 MiB; 16 channels x 2 x 8 steps x 128 KiB x 8 ranks for NVLS
    assert loud.nccl == (192 + 2 * 115 + 24 * 12 + 24 * 12 + 16 * 2 * 8 * 8 // 8) * MIB
    assert any("NCCL takes" in line for line in loud.report.assumptions)


def who_is_quiet():
    torch.ones(1, device="cuda")
    return dist.get_world_size()
