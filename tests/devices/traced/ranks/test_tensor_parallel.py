"""Tensor, sequence and expert parallelism: what one rank holds of DTensors. All sizes by hand."""

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from small_models import MIB
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

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


@pytest.mark.parametrize("rank", [0, 7])
def test_matrices_are_split_and_never_counted_whole(trace, rank):
    traced = trace(tensor_parallel, rank=rank, world_size=8)

    share = 4 * MATRIX // 8
    assert traced.value == [256, WIDTH]
    assert traced.parameters == traced.gradients == share
    assert traced.optimizer_states == 2 * share
    assert traced.temporaries <= share + MIB  # foreach's square roots of the rank's own shards


def test_sequence_parallel_rows_are_split_between_the_layers(trace):
    traced = trace(tensor_parallel, 1, True, world_size=8)

    assert traced.value == [256 // 8, WIDTH]
    assert traced.parameters == 4 * MATRIX // 8


def test_fsdp_and_tensor_parallel_split_twice(trace):
    traced = trace(tensor_parallel, 4, world_size=8)

    share = 4 * MATRIX // 8
    assert traced.parameters == share
    assert traced.optimizer_states == 2 * share
    # a layer's two matrices, whole in the one dimension and halved in the other
    layer = 2 * MATRIX // 2
    # and the gradient of a layer's input, summed over the tensor-parallel ranks
    summed = 256 * WIDTH * 4
    assert traced.collectives == 3 * layer + summed


def in_half_precision():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cuda", (2,))
    weight = distribute_tensor(torch.randn(WIDTH, WIDTH, device="cuda"), mesh, [Shard(0)])
    with torch.autocast("cuda", dtype=torch.bfloat16):
        product = weight @ distribute_tensor(torch.randn(WIDTH, 8, device="cuda"), mesh)
    return [str(product.dtype), str(product.device), list(product.to_local().shape)]


def test_autocast_sees_that_a_dtensor_is_on_cuda(trace):
    assert trace(in_half_precision, world_size=2).value == ["torch.bfloat16", "cuda:0", [WIDTH // 2, 8]]


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        output = torch.empty_like(x)
        dist.all_to_all_single(output, x)
        return output

    @staticmethod
    def backward(ctx, gradient):
        output = torch.empty_like(gradient)
        dist.all_to_all_single(output, gradient.contiguous())
        return output


def experts():
    size = dist.get_world_size()
    own = nn.ModuleList(FeedForward() for _ in range(8 // size)).cuda()
    optimizer = torch.optim.AdamW(own.parameters())
    for _ in range(2):
        tokens = torch.randn(8, 64, WIDTH, device="cuda", requires_grad=True)  # balanced: 64 for each expert
        sent = Exchange.apply(tokens)
        parts = sent.view(size, len(own), 64, WIDTH).transpose(0, 1).reshape(len(own), -1, WIDTH)
        out = torch.stack([expert(part) for expert, part in zip(own, parts, strict=True)])
        Exchange.apply(out.view(8, 64, WIDTH)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def test_a_rank_has_its_own_experts(trace):
    traced = trace(experts, world_size=4, metric="device", gpu="H100-80GB")

    assert traced.parameters == 2 * 2 * MATRIX
    assert traced.optimizer_states == 2 * 2 * 2 * MATRIX
    # NCCL sends to three other ranks and receives from them: 32 channels of 12 MiB each
    assert traced.nccl >= 3 * 32 * 12 * MIB


def under_a_mode():
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor

    class LeavesDTensors(TorchDispatchMode):
        """As PyTorch's ``MemTracker``: it sees the operators of a DTensor's own part alone."""

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if any(kind is DTensor for kind in types):
                return NotImplemented
            seen.append(func)
            return func(*args, **(kwargs or {}))

    seen = []
    model = nn.Linear(WIDTH, WIDTH, device="cuda")
    fully_shard(model)
    with LeavesDTensors():
        model(torch.randn(16, WIDTH, device="cuda")).sum().backward()
    return [str(model.weight.grad.device), torch.ops.aten.addmm.default in seen]


def test_a_mode_may_leave_dtensors_alone(trace):
    assert trace(under_a_mode, world_size=2).value == ["cuda:0", True]
