"""Small sharded training runs that say what a rank holds: on gloo processes for real, or on the stand-in.

As a program: ``sharded_runs.py FOLDER WORLD_SIZE...`` leaves each rank's figures of all runs there, in
``WORLD_SIZE-RANK.json``.
"""

import itertools
import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

WIDTH = 192


class Buffers(TorchDispatchMode):
    """Bytes of the storages that each collective is given."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "c10d":
            tensors = [one for one in torch.utils._pytree.tree_leaves(args) if isinstance(one, torch.Tensor)]
            sizes = [one.untyped_storage().nbytes() for one in tensors]
            self.seen.append([func.name().removeprefix("c10d::"), *sizes])
        return func(*args, **(kwargs or {}))


def model(device):
    sizes = (WIDTH, 4 * WIDTH, 4 * WIDTH, 2 * WIDTH, WIDTH + 1)  # the last does not divide evenly
    return nn.Sequential(*(nn.Linear(*pair) for pair in itertools.pairwise(sizes))).to(device)


def bytes_of(tensors):
    return sum(one.numel() * one.itemsize for one in map(local, tensors))


def storage_bytes_of(tensors):
    """With FSDP's padding of the last rank's shards."""
    storages = [local(one).untyped_storage() for one in tensors]
    return sum({one._cdata: one.nbytes() for one in storages}.values())


def local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def held(made, optimizer, device):
    """One step, then what there is before the second: by component, and every collective's buffers."""
    with Buffers() as buffers:
        for _ in range(2):
            optimizer.zero_grad()
            made(torch.ones(4, WIDTH, device=device)).sum().backward()
            optimizer.step()
    inner = getattr(optimizer, "optim", optimizer)  # ZeRO-1 keeps the rank's own optimizer there
    states = [one for state in inner.state.values() for one in state.values() if one.dim()]
    return {
        "parameters": storage_bytes_of(made.parameters()),
        "gradients": bytes_of(one.grad for one in made.parameters()),
        "optimizer_states": bytes_of(states),
        "collectives": buffers.seen,
    }


def fsdp(device):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    made = model(device)
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    for layer in made:
        fully_shard(layer, mesh=mesh)
    fully_shard(made, mesh=mesh)
    made.set_force_sum_reduction_for_comms(True)  # gloo does not divide
    return held(made, torch.optim.AdamW(made.parameters(), foreach=True), device)


def ddp(device):
    made = nn.parallel.DistributedDataParallel(model(device), bucket_cap_mb=1)
    return held(made, torch.optim.AdamW(made.parameters(), foreach=True), device)


def zero(device):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    made = nn.parallel.DistributedDataParallel(model(device))
    return held(made, ZeroRedundancyOptimizer(made.parameters(), torch.optim.AdamW, foreach=True), device)


RUNS = {"fsdp": fsdp, "ddp": ddp, "zero": zero}


def be_rank(folder, rank, world_size):
    torch.set_num_threads(1)
    meeting = f"file://{folder}/meeting-of-{world_size}"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world_size)
    figures = {name: run("cpu") for name, run in RUNS.items()}
    Path(folder, f"{world_size}-{rank}.json").write_text(json.dumps(figures))
    dist.destroy_process_group()


def main(folder, *world_sizes):
    """All ranks are forks of one process, so that torch is imported once."""
    ranks = [(rank, int(size)) for size in world_sizes for rank in range(int(size))]
    children = []
    for rank, size in ranks:
        child = os.fork()
        if not child:
            be_rank(folder, rank, size)
            os._exit(0)  # an error leaves by itself, with its traceback and status 1
        children.append(child)
    statuses = [os.waitpid(child, 0)[1] for child in children]
    sys.exit(1 if any(statuses) else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
