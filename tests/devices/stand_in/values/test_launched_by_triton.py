"""Triton's kernels may have written to the tensors that they were given, and to no others."""

import pytest
import torch

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")


@triton.jit
def copied(source, target, count, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(target + at, tl.load(source + at, mask=at < count), mask=at < count)


def launched_on(how):
    known = torch.full((64,), 7, dtype=torch.long, device="cuda")
    source = torch.empty(64, dtype=torch.long, device="cuda")
    target = known if how == "the tensor" else torch.empty_like(source)
    if how == "its end":
        target = known[32:]
    if how == "a table of addresses":  # on the card, where kernels look addresses up (grouped products)
        target = torch.tensor([known.data_ptr()] * 64, device="cuda")
    copied[(1,)](source, target, len(target), block=64)
    return known[3].item()


def test_a_tensor_that_was_not_given_stays_known(trace):
    traced = trace(launched_on, "another")

    assert traced.value == 7
    assert traced.report.assumptions == ()


@pytest.mark.parametrize("how", ["the tensor", "its end", "a table of addresses"])
def test_what_a_kernel_may_have_written_to_is_unknown(trace, how):
    traced = trace(launched_on, how)

    assert traced.value == 1
    assert len(traced.report.assumptions) == 1
