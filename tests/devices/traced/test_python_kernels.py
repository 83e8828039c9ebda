"""Operators of extensions: the kernel runs where it is Python code, and its results alone are known else."""

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


def test_a_kernel_registered_for_cuda_needs_no_fake_one(trace):
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


def in_a_c_library():
    @torch.library.custom_op("membudget_tests::by_pointer", mutates_args=())
    def by_pointer(tensor: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("Cannot access data pointer of Tensor")  # what C++ says of a fake tensor

    @by_pointer.register_fake
    def _(tensor):
        return torch.empty_like(tensor)

    return list(by_pointer(torch.ones(N, device="cuda")).shape)


def test_a_kernel_in_c_is_listed_and_its_results_counted(trace):
    run = trace(in_a_c_library)

    assert (run.value, run.allocated) == ([N], 2 * MIB)
    (line,) = run.report.not_modelled
    assert line.startswith("membudget_tests::by_pointer, once (")
    assert "what an extension's kernel allocates inside is not seen" in line


def refusing():
    @torch.library.custom_op("membudget_tests::refusing", mutates_args=())
    def refusing(tensor: torch.Tensor) -> torch.Tensor:
        raise ValueError("A must be float16, got torch.float32")

    @refusing.register_fake
    def _(tensor):
        return torch.empty_like(tensor)

    try:
        refusing(torch.ones(N, device="cuda"))
    except ValueError as error:
        return str(error)


def test_what_the_kernel_refuses_is_refused(trace):
    assert trace(refusing).value == "A must be float16, got torch.float32"


def on_the_host():
    @torch.library.custom_op("membudget_tests::hosted", mutates_args=())
    def hosted(tensor: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("reads real memory")

    @hosted.register_fake
    def _(tensor):
        return torch.empty_like(tensor)

    return list(hosted(torch.ones(3)).shape)


def test_on_the_host_the_fake_kernel_is_used(trace):
    assert trace(on_the_host).value == [3]


def too_large():
    @torch.library.custom_op("membudget_tests::large", mutates_args=())
    def large(tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty(2**40, device="cuda")

    @large.register_fake
    def _(tensor):
        return torch.empty_like(tensor)

    try:
        large(torch.ones(N, device="cuda"))
    except torch.OutOfMemoryError as error:
        return str(error)[:19]


def test_memory_that_the_kernel_cannot_have_is_out_of_memory(trace):
    assert trace(too_large, limited=True).value == "CUDA out of memory."


def without_any():
    library = torch.library.Library("membudget_tests", "FRAGMENT")
    library.define("unknown(Tensor x) -> Tensor")
    library.impl("unknown", lambda x: torch.ops.membudget_tests.missing(x), "CUDA")
    try:
        torch.ops.membudget_tests.unknown(torch.ones(N, device="cuda"))
    except AttributeError as error:
        return "missing" in str(error)


def test_an_error_of_a_kernel_without_a_fake_one_is_its_own(trace):
    assert trace(without_any).value is True
