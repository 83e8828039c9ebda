"""Tensor and sequence parallelism: what one rank holds of DTensors. All sizes by hand."""

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from small_models import MIB
from torch import nn

WIDTH, HIDDEN = 1024, 4096
MATRIX = WIDTH * HIDDEN * 4


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


def tensor_parallel(data_parallel=1, sequence=False):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    size = dist.get_world_size()
    shape = (data_parallel, size // data_parallel)
    mesh = init_device_mesh("cuda", shape, mesh_dim_names=("dp", "tp"))
    with torch.device("meta"):
        model = nn.Sequential(FeedForward(), FeedForward())
    for layer in model:
        up = ColwiseParallel(input_layouts=Shard(0)) if sequence else ColwiseParallel()
        down = RowwiseParallel(output_layouts=Shard(0)) if sequence else RowwiseParallel()
        parallelize_module(layer, mesh["tp"], {"up": up, "down": down})
        if data_parallel > 1:
            fully_shard(layer, mesh=mesh["dp"])
    if data_parallel > 1:
        fully_shard(model, mesh=mesh["dp"])
    model.to_empty(device="cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        out = model(torch.randn(256 // (shape[1] if sequence else 1), WIDTH, device="cuda"))
        out.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return list(out.shape)


#: From torch 2.15 on a product has its workspace while it runs, which would make it the peak.
NO_WORKSPACES = {"CUBLAS_WORKSPACE_CONFIG": ":0:0"}


@pytest.mark.parametrize(("rank", "sequence", "rows"), [(7, False, 256), (0, True, 256 // 8)])
def test_matrices_are_split_and_never_counted_whole(trace, rank, sequence, rows):
    """Rows too where the sequence is."""
    traced = trace(tensor_parallel, 1, sequence, rank=rank, world_size=8, environ=NO_WORKSPACES)

    share = 4 * MATRIX // 8
    assert traced.value == [rows, WIDTH]
    assert traced.has(parameters=share, gradients=share, optimizer_states=2 * share)
    assert traced.temporaries <= share + MIB  # foreach's square roots of the rank's own shards


def test_fsdp_and_tensor_parallel_split_twice(trace):
    traced = trace(tensor_parallel, 4, world_size=8, environ=NO_WORKSPACES)

    # a layer's two matrices, whole in one dimension and halved in the other, and the gradient of a layer's
    # input, summed over the tensor-parallel ranks
    share, layer, summed = 4 * MATRIX // 8, 2 * MATRIX // 2, 256 * WIDTH * 4
    assert traced.has(parameters=share, optimizer_states=2 * share, collectives=3 * layer + summed)


def normed():
    import warnings

    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    warnings.simplefilter("error")
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    rows = torch.empty(1, 256, WIDTH, device="cuda", dtype=torch.bfloat16)
    weight = torch.empty(WIDTH, device="cuda", dtype=torch.bfloat16)
    rows = distribute_tensor(rows, mesh, [Shard(1)])
    out = nn.functional.rms_norm(rows, (WIDTH,), distribute_tensor(weight, mesh, [Replicate()]), 1e-5)
    return list(out.to_local().shape)


def test_fake_tensors_of_sharding_are_not_followed(trace):
    """DTensor runs the decomposition of a norm on them, which casts; their pointer must not be asked for."""
    assert trace(normed, world_size=8).value == [1, 256 // 8, WIDTH]


def split_loss():
    """As examples/test_sharded.py: the user's lines compute with DTensors, and none asks for the rank."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import loss_parallel

    mesh = init_device_mesh("cuda", (4, 4), mesh_dim_names=("dp", "tp"))["tp"]
    rows = distribute_tensor(torch.empty(64, WIDTH, device="cuda"), mesh, [Replicate()])
    weight = torch.empty(WIDTH, HIDDEN, device="cuda", requires_grad=True)
    weight = distribute_tensor(weight, mesh, [Shard(1)])
    with loss_parallel():
        logits = F.gelu(rows @ weight * 2) + 1
        F.cross_entropy(logits.float(), torch.zeros(64, dtype=torch.int64, device="cuda")).backward()
    with torch.no_grad():
        weight -= weight.grad
    with torch.inference_mode():
        (weight * 2).sum()


def test_what_torch_asks_while_it_computes_with_dtensors_does_not_count(trace):
    traced = trace(split_loss, world_size=16)

    assert traced.representatives == [15]
    assert traced.rank_assumption == "ranks 0, 15 represent all 16: sharding gives rank 0 the most"
