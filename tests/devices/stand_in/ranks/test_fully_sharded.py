"""FSDP2 and FSDP1 on one rank: its shards, and what their collectives hold. All sizes by hand."""

import pytest
import torch
import torch.distributed as dist
from small_models import LAYER, LAYERS, MIB, WIDTH, WORKSPACE, layers, train
from torch import nn

from pytest_membudget.devices.torch_parts import torch_release

WHOLE = LAYERS * LAYER
SHARDS = WHOLE // 8


def sharded(model, **settings):
    from torch.distributed.fsdp import fully_shard

    for layer in model:
        fully_shard(layer, **settings)
    fully_shard(model, **settings)
    return model


def fully_sharded(how="plain", after_forward=True):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy

    settings = {"reshard_after_forward": after_forward}
    if how == "mixed":
        settings["mp_policy"] = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    if how == "hybrid":
        settings["mesh"] = init_device_mesh("cuda", (2, 4), mesh_dim_names=("replicate", "shard"))
    model = sharded(layers().cuda(), **settings)
    if how == "compiled":
        model.compile(backend="aot_eager")
    train(model)
    return torch.cuda.memory_allocated()


def test_a_rank_holds_its_shards_and_two_gathered_layers(trace):
    traced, middle = (trace(fully_sharded, rank=rank, world_size=8) for rank in (0, 3))

    # in backward: the layer's whole parameter, the next one's all-gather, and the reduce-scatter of the one
    # before, whose shard of a gradient is there
    assert traced.has(parameters=SHARDS, optimizer_states=2 * SHARDS, collectives=3 * LAYER)
    # the layer's whole gradient, and two shards: the second of the last layer, or of the layer before
    assert traced.gradients in (LAYER + LAYER // 8, LAYER + 2 * LAYER // 8)
    # afterwards nothing whole: the optimizer and its states went with the function that made them
    assert traced.value == SHARDS + 2 * WORKSPACE  # forward's and backward's
    assert middle.report.components == traced.report.components
    assert (traced.report.rank, middle.report.rank) == (0, 3)


@pytest.mark.parametrize(
    ("how", "parameters", "collectives"),
    [
        ("mixed", SHARDS, LAYER // 2 + LAYER // 2 + LAYER),  # gathered in bf16 and reduced in fp32
        ("hybrid", WHOLE // 4, None),  # over one dimension of the mesh
        ("compiled", SHARDS, None),
    ],
)
def test_it_is_sharded_in_other_ways(trace, how, parameters, collectives):
    traced = trace(fully_sharded, how, world_size=8)

    assert traced.has(parameters=parameters, optimizer_states=2 * parameters)
    assert collectives in (None, traced.collectives)


def test_parameters_that_stay_whole_after_forward_are_of_the_collectives(trace):
    traced = trace(fully_sharded, "plain", False, world_size=8)

    if torch_release() < (2, 15):
        # when the last layer's parameter is copied out: four are whole, and there are the all-gathers of the
        # last two layers (wait_for_unshard has the one before in a local variable until it returns)
        assert traced.has(parameters=SHARDS, collectives=4 * LAYER + 2 * LAYER)
    else:
        # it lets go of the one before first; more is there in backward, when the last layer but one has its
        # gradient: three parameters are whole, and the last layer's gradient is being reduced
        assert traced.has(parameters=SHARDS, collectives=3 * LAYER + LAYER, gradients=LAYER + LAYER // 8)


def test_collectives_have_streams_and_so_pools_of_their_own(trace):
    """The all-gathers' memory is cached for its streams, and no use to the optimizer's temporaries."""
    assert trace(fully_sharded, world_size=8, metric="reserved").cached >= 2 * LAYER


def from_meta():
    with torch.device("meta"):
        model = layers()
    sharded(model).to_empty(device="cuda")
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(16, WIDTH, device="cuda")).sum().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return str(next(model.parameters()).device)


def test_a_model_made_on_meta_never_is_whole(trace):
    traced = trace(from_meta, rank=1, world_size=8)

    assert traced.value == "cuda:1"
    assert traced.parameters == SHARDS
    assert traced.report.host is None


def offloaded(pin):
    from torch.distributed.fsdp import CPUOffloadPolicy

    with torch.device("meta"):
        model = layers()
    sharded(model, offload_policy=CPUOffloadPolicy(pin_memory=pin)).to_empty(device="cpu")
    train(model)
    return torch.cuda.memory_allocated()


@pytest.mark.parametrize("pin", [True, False])
def test_offloaded_shards_are_the_hosts(trace, pin):
    traced = trace(offloaded, pin, world_size=8)

    host = traced.report.host
    assert traced.has(parameters=0, optimizer_states=0)
    assert traced.value == 2 * WORKSPACE  # and nothing else
    assert (host.kind, host.metric, host.rank) == ("traced", "allocated", 0)
    assert host.components["parameters"] == host.components["gradients"] == SHARDS
    # two states, and AdamW's step counts: a number of 4 bytes for each of four parameters
    assert host.components["optimizer_states"] == 2 * SHARDS + 4 * LAYERS
    assert sum(host.components.values()) == host.peak["allocated"]


def wrapped():
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    policy = ModuleWrapPolicy({nn.Linear})
    train(FullyShardedDataParallel(layers().cuda(), auto_wrap_policy=policy, use_orig_params=True))


def test_fsdp1_shards_flat_parameters(trace):
    traced = trace(wrapped, world_size=8)

    assert traced.has(parameters=SHARDS, optimizer_states=2 * SHARDS)
    assert traced.collectives >= LAYER


def world(communicates):
    tensor = torch.ones(1, device="cuda")
    if communicates:
        dist.all_reduce(tensor)


def test_nccl_is_counted_for_the_metric_device(trace):
    quiet, loud = (
        trace(world, communicates, world_size=8, metric="device", gpu="H100-80GB")
        for communicates in (False, True)
    )

    assert quiet.nccl == 0
    # by hand for 8 H100 (``nccl``): 192 MiB of kernels; (3 x 32 + 2 + 17) granules of 2 MiB at the setup;
    # 24 rings and as many trees of 12 MiB; 16 channels x 2 x 8 steps x 128 KiB x 8 ranks for NVLS
    assert loud.nccl == (192 + 2 * 115 + 24 * 12 + 24 * 12 + 16 * 2 * 8 * 8 // 8) * MIB
    assert any("NCCL takes" in line for line in loud.assumptions)


def without_reducing(reduced):
    """A backward whose gradients stay whole; the filler makes the peak."""
    from torch.distributed.fsdp import MixedPrecisionPolicy

    model = sharded(layers().cuda(), mp_policy=MixedPrecisionPolicy(torch.bfloat16, getattr(torch, reduced)))
    model.set_requires_gradient_sync(False)
    model(torch.zeros(4, WIDTH, device="cuda")).sum().backward()
    torch.empty(64 * WHOLE, dtype=torch.uint8, device="cuda")
    return len(model)


@pytest.mark.parametrize(("reduced", "gradients"), [("bfloat16", WHOLE // 2), ("float32", WHOLE)])
def test_gradients_that_are_not_reduced_are_gradients(trace, reduced, gradients):
    assert trace(without_reducing, reduced, world_size=8).has(gradients=gradients)
