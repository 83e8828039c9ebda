"""What a collective of the user's own gives is memory of collectives, if nothing else makes use of it."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import _functional_collectives as funcol

MIB = 2**20


class Gathers(nn.Module):
    """Sums over all ranks' parts."""

    def forward(self, part):
        whole = funcol.all_gather_tensor(part, 0, dist.group.WORLD)
        return whole.sum()


def gathers(trains):
    part = torch.ones(MIB, device="cuda", requires_grad=trains)  # fp32: 4 MiB
    with torch.set_grad_enabled(trains):
        Gathers()(part)


def test_what_was_gathered_and_is_gone_is_of_the_collectives(trace):
    traced = trace(gathers, False, world_size=4)

    # what is waited for is the gathered tensor itself, and no copy of it
    assert (traced.inputs, traced.collectives, traced.temporaries) == (4 * MIB, 4 * 4 * MIB, 0)


class Keeps(nn.Module):
    """Leaves all ranks' parts to backward."""

    def forward(self, part):
        whole = funcol.all_gather_tensor_autograd(part, 0, dist.group.WORLD)
        return whole.square().sum()


def keeps():
    part = torch.ones(MIB, device="cuda", requires_grad=True)
    loss = Keeps()(part)
    more = torch.ones(64 * MIB, device="cuda")
    del loss, more


def test_what_was_gathered_and_stays_for_backward_is_an_activation(trace):
    traced = trace(keeps, world_size=4)

    assert traced.activations >= 4 * 4 * MIB
    assert traced.collectives == 0


def gathered_in_a_list():
    parts = [torch.empty(MIB, device="cuda") for _ in range(4)]
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    dist.all_gather(parts, torch.ones(MIB, device="cuda"))
    return torch.cuda.max_memory_allocated() - before


def test_the_older_nccl_group_gathers_a_list_by_way_of_one_tensor(trace):
    # what is sent, and ProcessGroupNCCL's flat copy of all four parts
    environ = {"TORCH_DIST_USE_NCCL2": "0"}

    assert trace(gathered_in_a_list, world_size=4, environ=environ).value == 4 * MIB + 4 * 4 * MIB
