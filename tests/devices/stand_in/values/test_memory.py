"""What operators take whose result's size depends on data, and that following values takes nothing."""

import gc

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import pytest_membudget

MIB = 2**20


def peak_of(body):
    gc.collect()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    body()
    return torch.cuda.max_memory_allocated() - before


def isin():
    x = torch.empty(16 * MIB, dtype=torch.int64, device="cuda")
    few = torch.empty(8, dtype=torch.int64, device="cuda")
    return 128 * MIB + peak_of(lambda: torch.isin(x, few))


def test_isin_takes_a_mask_for_each_test_element(trace):
    """128 MiB of elements, eight masks of a byte each beside each other, their union, and the result."""
    # isin_Tensor_Tensor_out in aten/src/ATen/native/TensorCompare.cpp
    assert trace(isin).value == 128 * MIB + (8 + 1 + 1) * 16 * MIB


def nonzero(told):
    x = torch.randn(MIB, device="cuda")
    with pytest_membudget.assume(true_fraction=told):
        return peak_of(lambda: x.nonzero())


@pytest.mark.parametrize("told", [1.0, 0.5])
def test_nonzero_takes_its_result_and_what_cub_takes(trace, told):
    """An int64 for each that is selected; CUB's tables are far below a byte for each element."""
    result = int(told * MIB) * 8

    assert result <= trace(nonzero, told).value < result + MIB // 8


def equal():
    x, y = torch.randn(MIB, device="cuda"), torch.randn(MIB, device="cuda")
    return peak_of(lambda: torch.equal(x, y))


def test_equal_takes_a_mask(trace):
    """``cuda_equal`` (aten/src/ATen/native/cuda/Equal.cpp): a boolean for each element, and one for all."""
    assert MIB <= trace(equal).value <= MIB + 2048


def one_training_step():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(512, 64), nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)).cuda()
    head = nn.Linear(64, 512).cuda()
    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], fused=True)
    for _ in range(2):
        ids = torch.randint(512, (4, 128), device="cuda")
        x = torch.utils.checkpoint.checkpoint(model, ids, use_reentrant=False)
        hidden = x + x.tanh() + x.sigmoid() * 2
        loss = F.cross_entropy(head(hidden).view(-1, 512).float(), ids.view(-1))
        with torch.autocast("cuda", torch.bfloat16):
            loss = loss + head(hidden).square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    stats = torch.cuda.memory_stats()
    names = ("allocated_bytes.all.peak", "requested_bytes.all.peak", "allocation.all.allocated")
    return [stats[name] for name in names]


def test_a_training_step_allocates_as_without_values(stand_in, trace):
    """Peaks and how many blocks were asked for: autograd adds and hands over gradients as ever."""
    assert trace(one_training_step).value == stand_in(one_training_step)


def gradients_are_added():
    x = torch.zeros(MIB, device="cuda", requires_grad=True)
    y, factor = x + 1, torch.ones(MIB, device="cuda")
    total = (y * factor + y * factor + y * factor).sum()
    return peak_of(total.backward)


def test_gradients_are_added_in_place(trace, stand_in):
    """Two gradients at a time, of 4 MiB: the second is added to the first."""
    taken = trace(gradients_are_added).value

    assert taken == stand_in(gradients_are_added)
    assert 8 * MIB <= taken <= 8 * MIB + 2048


def caught_out_of_memory():
    x = torch.empty(MIB, device="cuda")
    before = torch.cuda.memory_allocated()
    try:
        (x + x).expand(2**24, MIB).exp()
    except torch.OutOfMemoryError as error:
        kept = torch.cuda.memory_allocated() - before
        return [kept, "Tried to allocate" in str(error)]


def test_an_error_keeps_no_tensors_alive(trace):
    """``x + x`` is gone once the error is caught, as on a card."""
    assert trace(caught_out_of_memory).value == [0, True]
