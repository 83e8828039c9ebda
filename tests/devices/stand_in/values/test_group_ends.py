"""Products of groups of rows, which PyTorch multiplies one by one but on Hopper and Blackwell."""

import pytest
import torch

MIB = 2**20
GROUPS, ROWS, WIDTH, WIDE = 8, 4096, 512, 1024
BF16 = torch.bfloat16


def taken(first, second, dtype=BF16):
    """What the second of two products takes."""
    first, second = (torch.randn(shape, device="cuda", dtype=dtype) for shape in (first, second))
    chosen = torch.randn(ROWS, GROUPS, device="cuda").argmax(-1, keepdim=True)
    ends = (chosen == torch.arange(GROUPS, device="cuda")).sum(0).cumsum(0).to(torch.int32)
    torch._grouped_mm(first, second, offs=ends)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    found = torch._grouped_mm(first, second, offs=ends)
    return [list(found.shape), torch.cuda.max_memory_allocated() - before]


@pytest.mark.parametrize(
    ("first", "second", "shape"),
    [
        ((ROWS, WIDTH), (GROUPS, WIDTH, WIDE), [ROWS, WIDE]),
        ((GROUPS, WIDE, WIDTH), (WIDTH, ROWS), [WIDE, ROWS]),
        ((WIDTH, ROWS), (ROWS, WIDE), [GROUPS, WIDTH, WIDE]),
    ],
)
def test_a_grouped_product_takes_its_result(trace, first, second, shape):
    """``mm_out`` into slices of it (native/GroupedMMUtils.h, 2.11 to 2.15), 8 MiB in bfloat16."""
    traced = trace(taken, first, second, environ={"CUBLAS_WORKSPACE_CONFIG": ":0:0"})

    assert traced.value == [shape, 8 * MIB]
    assert not traced.assumptions
