"""Triton kernels of one's own: launched, autotuned, and behind an operator of ``torch.library``."""

import pytest
import torch

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")

SIZE = 2**20


@triton.jit
def add_kernel(x_ptr, y_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):  # noqa: N803
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(output_ptr + offsets, x + y, mask=mask)


def add(x, y):
    output = torch.empty_like(x)
    n_elements = output.numel()
    add_kernel[lambda meta: (triton.cdiv(n_elements, meta["BLOCK_SIZE"]),)](
        x, y, output, n_elements, BLOCK_SIZE=1024
    )
    return output


class Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return add(x, y)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, gradient


@triton.autotune(
    configs=[triton.Config({"BLOCK_SIZE": size}, num_warps=4) for size in (512, 1024)], key=["n_elements"]
)
@triton.jit
def double_kernel(x_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):  # noqa: N803
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    tl.store(output_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=mask), mask=mask)


@torch.library.triton_op("clients::shifted", mutates_args={})
def shifted(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    output = torch.empty_like(x)
    torch.library.wrap_triton(add_kernel)[(triton.cdiv(x.numel(), 1024),)](
        x, y * 2, output, x.numel(), BLOCK_SIZE=1024
    )
    return output


def operands():
    return [torch.rand(SIZE, device="cuda", requires_grad=True) for _ in range(2)]


@pytest.mark.mem_budget(gib=0.1)
def test_a_launch_in_an_autograd_function():
    x, y = operands()
    Add.apply(x, y).sum().backward()


@pytest.mark.mem_budget(gib=0.5)
def test_an_autotuned_kernel():
    x = torch.rand(SIZE, device="cuda")
    output = torch.empty_like(x)
    for _ in range(2):
        double_kernel[lambda meta: (triton.cdiv(SIZE, meta["BLOCK_SIZE"]),)](x, output, SIZE)


@pytest.mark.mem_budget(gib=0.1)
def test_an_operator_made_of_kernels():
    with torch.no_grad():
        shifted(*operands())
