"""Operators of the user's own: what their kernels allocate is counted."""

import torch

MIB = 2**20
N = 2**18  # 1 MiB of float32


def scaled_twice():
    @torch.library.custom_op("membudget_tests::twice", mutates_args=())
    def twice(tensor: torch.Tensor) -> torch.Tensor:
        return (tensor * 2) * 2

    @twice.register_fake
    def _(tensor):
        return torch.empty_like(tensor)

    x = torch.ones(N, device="cuda")
    result = twice(x)
    return list(result.shape)


def test_what_the_kernel_allocates_is_counted(trace):
    run = trace(scaled_twice)

    assert run.value == [N]
    assert run.allocated == 3 * MIB  # the operand, its double, and the result
    assert run.report.not_modelled == ()


def for_cuda():
    library = torch.library.Library("membudget_tests", "FRAGMENT")
    library.define("widened(Tensor x) -> Tensor")
    library.define("widened.out(Tensor x, *, Tensor(a!) out) -> ()")

    def widened_out(x, *, out):
        out.copy_(x.double().float())

    def widened(x):
        return torch.cat([x, x])

    torch.library.register_kernel("membudget_tests::widened", "cuda", widened, lib=library)
    torch.library.register_kernel("membudget_tests::widened.out", "cuda", widened_out, lib=library)
    x = torch.ones(N, device="cuda")
    with torch.no_grad():
        wide = torch.ops.membudget_tests.widened(x)
        torch.ops.membudget_tests.widened.out(x, out=x)
    return list(wide.shape)


def test_a_kernel_registered_for_cuda_is_run(trace):
    run = trace(for_cuda)

    assert run.value == [2 * N]
    assert run.allocated == 6 * MIB  # operand, twice as wide, float64 (2), float32 again
    assert run.report.not_modelled == ()


def trained():
    @torch.library.custom_op("membudget_tests::doubled", mutates_args=())
    def doubled(tensor: torch.Tensor) -> torch.Tensor:
        return tensor * 2

    @doubled.register_fake
    def _(tensor):
        return torch.empty_like(tensor)

    doubled.register_autograd(lambda ctx, gradient: gradient * 2)
    module = torch.nn.Linear(N, 1, bias=False, device="cuda")
    result = doubled(module.weight)
    result.sum().backward()
    return list(module.weight.grad.shape)


def test_its_autograd_formula_is_used(trace):
    run = trace(trained)

    assert (run.value, run.gradients) == ([1, N], MIB)
