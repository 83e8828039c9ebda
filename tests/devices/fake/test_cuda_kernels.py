"""Operators that CUDA runs whole are not taken apart on a build that has no CUDA kernels."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from pytest_membudget.devices.fake.cuda_kernels import WHOLE_ON_CUDA
from pytest_membudget.devices.fake.private import torch_release

MIB = 2**20


def normalise():
    norm = nn.RMSNorm(1024, device="cuda")
    x = torch.randn(4096, 1024, device="cuda")
    output = norm(x)
    before = torch.cuda.memory_allocated()
    output.backward(torch.empty_like(output))
    return before


def test_rms_norm_keeps_its_input_and_a_number_a_row(trace):
    traced = trace(normalise)

    weight, rows, matrix = 4096, 4096 * 4, 4096 * 1024 * 4
    assert traced.value == weight + rows + 2 * matrix  # weight, saved rstd, input and output


def gate():
    x = torch.randn(1024, 1024, device="cuda", requires_grad=True)
    output = nn.functional.silu(x)
    output.backward(torch.empty_like(output))


def test_silus_backward_is_one_kernel(trace):
    """Input, output, the output's gradient and the input's: no intermediates."""
    assert trace(gate).allocated == 4 * 4 * MIB


@pytest.mark.skipif(torch.version.cuda is None, reason="a build without CUDA has no table to compare with")
def test_the_list_is_what_the_dispatch_table_of_a_cuda_build_says():
    program = """
import torch
has = torch._C._dispatch_has_kernel_for_dispatch_key
names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
print(*sorted(n for n in names if has(n, "CompositeImplicitAutograd") and has(n, "CUDA")))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.split() == sorted(f"aten::{name}" for name in WHOLE_ON_CUDA)


def fused_step(name, options):
    parameter = nn.Parameter(torch.randn(1024, 1024, device="cuda"))
    optimizer = getattr(torch.optim, name)([parameter], lr=0.1, fused=True, **options)
    for _ in range(2):
        parameter.grad = torch.ones_like(parameter)
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        optimizer.step()
    return torch.cuda.max_memory_allocated() - before


@pytest.mark.parametrize(
    ("name", "options"),
    [("SGD", {"momentum": 0.9}), ("Adagrad", {}), ("Adam", {"amsgrad": True}), ("AdamW", {})],
)
def test_a_fused_step_allocates_nothing(trace, name, options):
    """After the first, which makes the states."""
    if name == "Adagrad" and torch_release() <= (2, 11):
        with pytest.raises(AssertionError, match="requires all the params to be floating point Tensors"):
            trace(fused_step, name, options)
    else:
        assert trace(fused_step, name, options).value == 0
