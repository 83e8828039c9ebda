"""Context parallelism: a rank has its part of the sequence, and gathers keys and values."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

LENGTH, WIDTH, HEADS = 4096, 512, 8


class Peak(TorchDispatchMode):
    """What is allocated at most while attention runs."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if "attention" not in func.name():
            return func(*args, **(kwargs or {}))
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        result = func(*args, **(kwargs or {}))
        taken.append([func.name(), torch.cuda.max_memory_allocated() - before])
        return result


taken = []


def in_context():
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.experimental import context_parallel
    from torch.nn.attention import SDPBackend, sdpa_kernel

    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    x = torch.randn(1, LENGTH, WIDTH, device="cuda", dtype=torch.bfloat16)
    heads = nn.Linear(WIDTH, 3 * WIDTH, bias=False, device="cuda", dtype=torch.bfloat16)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), context_parallel(mesh, buffers=(x,), buffer_seq_dims=(1,)):
        parts = heads(x).chunk(3, -1)
        q, k, v = (one.view(1, -1, HEADS, WIDTH // HEADS).transpose(1, 2) for one in parts)
        with Peak():
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out.float().sum().backward()
    return [list(out.shape), taken]


def test_keys_and_values_of_all_ranks_are_gathered(trace):
    shape, taken = trace(in_context, rank=1, world_size=4).value

    assert shape == [1, HEADS, LENGTH // 4, WIDTH // HEADS]
    [(operator, peak_bytes)] = taken
    assert operator == "aten::_scaled_dot_product_flash_attention"
    # the keys and values of all four ranks in bf16, at the least
    assert peak_bytes >= 2 * LENGTH * WIDTH * 2
