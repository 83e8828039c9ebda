"""What sequence parallelism keeps for backward on one rank. By hand."""

import torch
import torch.distributed as dist
from small_models import MIB
from test_tensor_parallel import HIDDEN, WIDTH, FeedForward
from torch import nn

ROWS = 256


def kept_for_backward(splits_sequence):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    model = nn.Sequential(FeedForward(), FeedForward()).cuda()
    for layer in model:
        up = ColwiseParallel(input_layouts=Shard(0)) if splits_sequence else ColwiseParallel()
        down = RowwiseParallel(output_layouts=Shard(0)) if splits_sequence else RowwiseParallel()
        parallelize_module(layer, mesh, {"up": up, "down": down})
    rows = ROWS // (dist.get_world_size() if splits_sequence else 1)
    x = torch.randn(rows, WIDTH, device="cuda")
    (x @ torch.randn(WIDTH, 16, device="cuda")).sum()  # cuBLAS's workspace is there
    before = torch.cuda.memory_allocated()
    out = model(x)
    out = out.to_local() if hasattr(out, "to_local") else out
    return [list(out.shape), torch.cuda.memory_allocated() - before]


def hidden(size):
    """Results of ``up`` and of gelu, a rank's columns of them."""
    return 2 * ROWS * HIDDEN // size * 4


def test_gathered_rows_are_kept_for_the_gradients_of_matrices(trace):
    shape, kept = trace(kept_for_backward, True, world_size=8).value

    assert shape == [ROWS // 8, WIDTH]
    # of each of two layers all rows of its input, gathered; and the rank's rows of the result, with the input
    # of their reduce-scatter, whose work holds it until it is waited for
    rows = ROWS * WIDTH * 4
    assert kept == 2 * (rows + hidden(8)) + rows // 8 + rows
    assert kept == 5 * MIB + MIB // 8


def test_without_it_results_are_whole_on_every_rank(trace):
    shape, kept = trace(kept_for_backward, False, world_size=8).value

    assert shape == [ROWS, WIDTH]
    # the first layer's input was there before; its result, the second's input, and that one's result
    assert kept == 2 * hidden(8) + 2 * ROWS * WIDTH * 4 == 4 * MIB


def normed():
    import warnings

    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    warnings.simplefilter("error")
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    rows = torch.empty(1, ROWS, WIDTH, device="cuda", dtype=torch.bfloat16)
    weight = torch.empty(WIDTH, device="cuda", dtype=torch.bfloat16)
    rows = distribute_tensor(rows, mesh, [Shard(1)])
    out = nn.functional.rms_norm(rows, (WIDTH,), distribute_tensor(weight, mesh, [Replicate()]), 1e-5)
    return list(out.to_local().shape)


def test_fake_tensors_of_sharding_are_not_followed(trace):
    """DTensor runs the decomposition of a norm on them, which casts; their pointer must not be asked for."""
    assert trace(normed, world_size=8).value == [1, ROWS // 8, WIDTH]
