"""PyTorch's CUDA kernels are called, and take memory, as without values followed."""

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

MIB = 2**20


def peak_of(body):
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    body()
    return torch.cuda.memory_stats()["requested_bytes.all.peak"] - before


def numbers_looked_for(number, dtype):
    boundaries = torch.arange(1000, dtype=getattr(torch, dtype), device="cuda")
    searches = (
        lambda: torch.searchsorted(boundaries, number),
        lambda: torch.bucketize(number, boundaries),
        lambda: torch.searchsorted(boundaries, number, out=torch.empty((), dtype=torch.long, device="cuda")),
    )
    return [peak_of(search) for search in searches]


@pytest.mark.parametrize(
    ("number", "dtype", "casts_bytes"),
    [
        pytest.param(2.5, "float64", 0, id="of the boundaries' type"),
        pytest.param(2.5, "float32", 4, id="the number is cast"),
        pytest.param(2, "float16", 2, id="a whole number"),
        # an int64 tensor and a number with a fraction: torch.result_type is float32
        pytest.param(2.5, "int64", 4 + 4 * 1000, id="both are cast"),
    ],
)
def test_a_number_among_boundaries_is_a_tensor_of_its_own_and_is_cast_to_their_common_type(
    trace, number, dtype, casts_bytes
):
    """8 bytes of the number, 8 of its position: native/BucketizationUtils.h (2.15)."""
    assert trace(numbers_looked_for, number, dtype).value == [16 + casts_bytes] * 3


def gradients_of_known_numbers():
    """No bias, no affine parameters; ``sgn_backward`` gives autograd's efficient zeros.

    Each inner input is seen by 2 positions of 3 channels; a weight by 7 positions of 2 samples.
    """
    ones = torch.ones(2, 4, 8, device="cuda", requires_grad=True)
    weight = torch.ones(3, 4, 2, device="cuda", requires_grad=True)
    F.conv1d(ones, weight).sum().backward()
    of_the_convolution = [ones.grad[0, 0, 1].item(), weight.grad[0, 0, 0].item()]
    F.layer_norm(ones, [8]).sum().backward()
    sign = torch.ones(3, device="cuda", requires_grad=True)
    torch.sgn(sign).sum().backward()
    return [*of_the_convolution, ones.grad[0, 0, 1].item(), sign.grad.tolist()]


def inside_fake_tensors():
    """Such tensors never come here."""
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(torch.ones(4, device="cuda"))
        return [type(fake + 1).__name__, str((fake * 2).device), list(torch.arange(3, device="cuda").shape)]


class Passing(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **kwargs or {})


def product_where_a_mode_is_on_but_not_asked():
    ones = torch.ones(2, 16, 16, device="cuda")
    with Passing(), torch._C._DisableTorchDispatch():  # as where inductor times kernels
        return peak_of(lambda: torch.bmm(ones, ones))


def test_a_kernel_that_pytorch_has_in_python_is_called_inside_a_mode(trace):
    """With Triton, that of ``bmm`` is ``torch._native``'s (2.13)."""
    traced = trace(product_where_a_mode_is_on_but_not_asked, environ={"CUBLAS_WORKSPACE_CONFIG": ":0:0"})
    assert traced.value == 2 * 16 * 16 * 4


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
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    stats = torch.cuda.memory_stats()
    names = ("allocated_bytes.all.peak", "requested_bytes.all.peak", "allocation.all.allocated")
    return [stats[name] for name in names]


def gradients_are_added():
    x = torch.zeros(MIB, device="cuda", requires_grad=True)
    y, factor = x + 1, torch.ones(MIB, device="cuda")
    total = (y * factor + y * factor + y * factor).sum()
    return peak_of(total.backward)


@pytest.mark.parametrize("body", [one_training_step, gradients_are_added])
def test_a_step_allocates_as_without_values(stand_in, trace, body):
    """Peaks and how many blocks were asked for: autograd adds and hands over gradients as ever."""
    assert trace(body).value == stand_in(body)


def caught_out_of_memory():
    """``x + x`` is gone once the error is caught, as on a card."""
    x = torch.empty(MIB, device="cuda")
    before = torch.cuda.memory_allocated()
    try:
        (x + x).expand(2**24, MIB).exp()
    except torch.OutOfMemoryError as error:
        return [torch.cuda.memory_allocated() - before, "Tried to allocate" in str(error)]


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (gradients_of_known_numbers, [6.0, 14.0, 6.0, [0.0, 0.0, 0.0]]),
        (inside_fake_tensors, ["FakeTensor", "cuda:0", [3]]),
        (caught_out_of_memory, [0, True]),
    ],
)
def test_what_is_called_gives_what_it_does_without_values_followed(trace, body, value):
    assert trace(body).value == value


#: ``torch.func`` and ``torch.autograd.functional``: transforms run through the kernels that are followed.
TRANSFORMS = {
    "grad of a gradient": (lambda f, x: f.grad(lambda y: f.grad(lambda z: (z**3).sum())(y).sum())(x), [4]),
    "vjp": (lambda f, x: f.vjp(torch.sin, x)[1](x)[0], [4]),
    "jvp": (lambda f, x: f.jvp(torch.sin, (x,), (x,))[1], [4]),
    "per sample": (lambda f, x: f.vmap(f.grad(torch.sin))(x), [4]),
    "jacrev row by row": (lambda f, x: f.jacrev(torch.sin, chunk_size=1)(x), [4, 4]),
    "hessian": (lambda f, x: f.hessian(lambda y: y.sin().sum())(x), [4, 4]),
    "on the host": (lambda f, x: f.hessian(lambda y: y.sin().sum())(x.cpu()), [4, 4]),
    "vectorized": (lambda f, x: torch.autograd.functional.jacobian(torch.sin, x, vectorize=True), [4, 4]),
}


def transformed(how):
    return list(TRANSFORMS[how][0](torch.func, torch.randn(4, device="cuda")).shape)


@pytest.mark.parametrize("how", TRANSFORMS)
def test_transforms_of_functions_run(trace, how):
    assert trace(transformed, how).value == TRANSFORMS[how][1]


def of_a_users_library():
    library = torch.library.Library("membudget_tests", "FRAGMENT")
    library.define("widened(Tensor x) -> Tensor")
    library.define("widened.out(Tensor x, *, Tensor(a!) out) -> ()")

    def widened_out(x, *, out):
        out.copy_(x.double().float())

    torch.library.register_kernel(
        "membudget_tests::widened", "cuda", lambda x: torch.cat([x, x]), lib=library
    )
    torch.library.register_kernel("membudget_tests::widened.out", "cuda", widened_out, lib=library)
    x = torch.ones(MIB // 4, device="cuda")
    with torch.no_grad():
        wide = torch.ops.membudget_tests.widened(x)
        torch.ops.membudget_tests.widened.out(x, out=x)
    return list(wide.shape)


def test_what_a_users_own_kernels_allocate_is_counted(trace):
    traced = trace(of_a_users_library)

    assert traced.value == [MIB // 2]
    assert traced.allocated == 6 * MIB  # operand, twice as wide, float64 (2), float32 again
    assert traced.report.not_modelled == ()
