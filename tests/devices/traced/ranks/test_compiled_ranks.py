"""Compiled layers under FSDP2, as one rank of two."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

MIB = 2**20


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = (nn.Linear(512, 512, bias=False, device="cuda") for _ in range(2))

    def forward(self, x):
        return x + self.second(self.first(x).sin().cos().tanh())


def held_by_a_layer(compiled):
    """What a forward of the second of two layers leaves: MiB."""
    model = nn.Sequential(Block(), Block())
    for layer in model:
        if compiled:
            layer.compile()
        fully_shard(layer)
    fully_shard(model)
    x = model[0](torch.randn(512, 512, device="cuda"))
    before = torch.cuda.memory_allocated()
    output = model[1](x)
    kept = (torch.cuda.memory_allocated() - before) / MIB
    output.sum().backward()
    return kept


def ranks():
    dist.init_process_group("nccl")
    torch.randn(8, 8, device="cuda") @ torch.randn(8, 8, device="cuda")  # cuBLAS's workspace
    return {"eager": held_by_a_layer(False), "compiled": held_by_a_layer(True)}


def test_sharded_layers_are_compiled(trace):
    """Eager code keeps the first product for sin, sin's result for cos, and tanh's; beside the output.

    Compiled, sin is computed again; tanh's result is read by a product of the backward, and is kept.
    """
    traced = trace(ranks, world_size=2)

    assert traced.value["eager"] - traced.value["compiled"] == 1
    assert traced.report.not_modelled == ()
