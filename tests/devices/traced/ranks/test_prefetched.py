"""What a rank has gathered while a layer runs, with and without an explicit prefetch. By hand."""

import pytest
import torch
from small_models import LAYER, LAYERS, WIDTH
from torch import nn

held = []


class Observed(nn.Linear):
    """Says what is allocated while its forward runs."""

    def forward(self, x):
        held.append(torch.cuda.memory_allocated())
        return super().forward(x)


def prefetched(ahead):
    from torch.distributed.fsdp import fully_shard

    model = nn.Sequential(*(Observed(WIDTH, WIDTH, bias=False) for _ in range(LAYERS))).cuda()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    for index, layer in enumerate(model):
        layer.set_modules_to_forward_prefetch(list(model[index + 1 : index + 1 + ahead]))
    x = torch.randn(16, WIDTH, device="cuda")
    (x @ torch.randn(WIDTH, 16, device="cuda")).sum()  # cuBLAS's workspace is there
    with torch.no_grad():
        before = torch.cuda.memory_allocated()
        model(x)
    return [one - before for one in held]


@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_layers_are_gathered_ahead(trace, ahead):
    taken = trace(prefetched, ahead, world_size=8).value

    for index, one in enumerate(taken):
        # the layer's own all-gather, and what was copied out of it; then those that are on their way; and
        # from the second layer on the result of the one before, 16 rows in fp32
        coming = min(ahead, LAYERS - 1 - index)
        assert one == (2 + coming) * LAYER + (16 * WIDTH * 4 if index else 0)
