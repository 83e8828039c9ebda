"""Autograd as people extend it: functions and operators of their own, hooks, gradients of gradients.

Tensors of 512 x 512 numbers are 1 MiB in fp32; what is left and the most are counted from before the forward.
"""

import pytest
import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.utils import prune

MIB = 2**20
WORKSPACE = 8519680


def square(**options):
    return torch.randn(512, 512, device="cuda", **options)


class Counted:
    """What is held more than before: ``saved`` after a forward, ``most`` up to the end."""

    def __init__(self):
        torch.cuda.reset_peak_memory_stats()
        self.before = torch.cuda.memory_allocated()
        self.saved = 0

    def forward_ended(self):
        self.saved = torch.cuda.memory_allocated() - self.before

    def found(self):
        """Saved, most, left: in MiB, numbers on the device left aside."""
        held = torch.cuda.memory_allocated() - self.before
        most = torch.cuda.max_memory_allocated() - self.before
        return [size // MIB for size in (self.saved, most, held)]


class Exp(torch.autograd.Function):
    """Saves its result, which is there anyway."""

    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, gradient):
        (result,) = ctx.saved_tensors
        return gradient * result


class ExpWithAttributes(torch.autograd.Function):
    """Keeps its input, its result and a copy of it on the context."""

    @staticmethod
    def forward(ctx, x):
        ctx.x, ctx.result = x, x.exp()
        ctx.copy = ctx.result.clone()
        return ctx.result.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        return gradient * ctx.result


class Doubled(torch.autograd.Function):
    """In place."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class WithSetup(torch.autograd.Function):
    """In the newer style, with a result that has no gradient."""

    @staticmethod
    def forward(x):
        return x.exp(), x > 0

    @staticmethod
    def setup_context(ctx, inputs, output):
        result, positive = output
        ctx.save_for_backward(result, positive)
        ctx.mark_non_differentiable(positive)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, gradient, nothing):
        assert nothing is None
        result, positive = ctx.saved_tensors
        return gradient * result * positive


def of_function(how):
    x = square(requires_grad=True)
    counted = Counted()
    if how == "saved result":
        y = Exp.apply(x)
    elif how == "attributes":
        y = ExpWithAttributes.apply(x)
    elif how == "dirty":
        y = Doubled.apply(x * 1)
    else:
        y, positive = WithSetup.apply(x)
        assert not positive.requires_grad
        del positive
    counted.forward_ended()
    y.backward(torch.ones((), device="cuda").expand(512, 512))
    return counted.found()


@pytest.mark.parametrize(
    ("how", "saved", "most", "left"),
    [
        # the result is what is saved; backward makes the gradient, and the graph lets go of nothing else
        ("saved result", 1, 2, 2),
        # the result, its two copies; the context lives as long as y: backward frees no attributes
        ("attributes", 3, 4, 4),
        # x * 1 changed in place; its gradient passes on through two products by a number
        ("dirty", 1, 3, 2),
        # the result and a quarter of a MiB; backward's two products
        ("with setup", 1, 3, 2),
    ],
)
def test_a_function_keeps_what_it_saves(trace, how, saved, most, left):
    assert trace(of_function, how).value == [saved, most, left]


def cast_by_autocast():
    class Fn(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type="cuda")
        def backward(ctx, gradient):
            assert ctx.saved_tensors[0].dtype is torch.float32
            return gradient * 2

    x = square(dtype=torch.float16, requires_grad=True)
    counted = Counted()
    with torch.autocast("cuda", dtype=torch.float16):
        y = Fn.apply(x)
    counted.forward_ended()
    return [counted.found()[0], str(y.dtype)]


def test_custom_fwd_casts_its_inputs(trace):
    """The half is cast to 1 MiB of fp32, saved, beside the result."""
    assert trace(cast_by_autocast).value == [2, "torch.float32"]


def penalised():
    model = nn.Sequential(nn.Linear(512, 512, bias=False), nn.Tanh(), nn.Linear(512, 512, bias=False)).cuda()
    x = square(requires_grad=True)
    output = model(x).sum()
    before = torch.cuda.memory_allocated()
    (slope,) = torch.autograd.grad(output, x, create_graph=True)
    kept = torch.cuda.memory_allocated() - before
    penalty = (slope.norm(2, dim=1) - 1).square().mean()
    penalty.backward()
    return [kept // MIB, [parameter.grad is not None for parameter in model.parameters()]]


def test_a_gradient_with_a_graph_keeps_what_its_own_backward_needs(trace):
    """The slope, and of tanh's backward what came in (saved: a product with the weight) and what went out.

    1 MiB each, and backward's workspace.
    """
    traced = trace(penalised, workspaces_of=(2, 13))

    workspace = -(-WORKSPACE // MIB) - 1
    assert traced.value == [3 + workspace, [True, True]]


def without_graph():
    x = square(requires_grad=True)
    y = x.exp()
    before = torch.cuda.memory_allocated()
    gradient = torch.autograd.grad(y, x, torch.ones_like(y))[0]
    return [x.grad is None, (torch.cuda.memory_allocated() - before) // MIB, gradient.requires_grad]


def test_a_gradient_that_is_asked_for_is_the_callers(trace):
    assert trace(without_graph).value == [True, 1, False]


def hooked():
    model = nn.Sequential(nn.Linear(512, 512, bias=False), nn.Linear(512, 512, bias=False)).cuda()
    called = []
    model[0].register_full_backward_hook(lambda module, inputs, outputs: called.append("module"))
    model[1].register_full_backward_pre_hook(lambda module, outputs: called.append("before module"))
    model.register_forward_hook(lambda module, inputs, output: called.append("forward"))
    optimizers = {one: torch.optim.SGD([one], lr=0.1) for one in model.parameters()}

    def step(parameter):
        called.append("parameter")
        optimizers[parameter].step()
        parameter.grad = None

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    hidden = model(square(requires_grad=True))
    hidden.register_hook(lambda gradient: called.append("tensor"))
    hidden.sum().backward()
    return called


def test_hooks_are_called_and_gradients_that_they_drop_are_gone(trace):
    traced = trace(hooked)

    assert traced.value == [
        "forward", "tensor", "before module", "parameter", "parameter", "module",
    ]  # fmt: skip
    assert traced.gradients <= MIB + MIB  # one weight's, and the input's


def parametrized(how):
    layer = nn.Linear(512, 512, bias=False, device="cuda")
    if how == "weight_norm":
        nn.utils.parametrizations.weight_norm(layer)
    elif how == "pruned":
        prune.l1_unstructured(layer, "weight", amount=0.3)
    else:
        nn.utils.parametrizations.spectral_norm(layer)
    counted = Counted()
    layer(square()).sum().backward()
    return [sorted(dict(layer.named_parameters())), sorted(dict(layer.named_buffers())), counted.found()[2]]


@pytest.mark.parametrize(
    ("how", "parameters", "buffers", "workspaces"),
    [
        # a norm for each of 512 rows
        ("weight_norm", MIB + 4 * 512, 0, 2),
        ("pruned", MIB, MIB, 2),
        # two vectors; the forward's workspace is there since they were made by products
        ("spectral_norm", MIB, 2 * 4 * 512, 1),
    ],
)
def test_parametrizations_hold_parameters_and_buffers(trace, how, parameters, buffers, workspaces):
    traced = trace(parametrized, how, workspaces_of=(2, 13))

    assert (traced.parameters, traced.buffers) == (parameters, buffers)
    assert traced.value[2] == 1 + workspaces * WORKSPACE // MIB  # and the gradient


def inferred(how):
    model = nn.Sequential(*[nn.Linear(512, 512, bias=False) for _ in range(4)]).cuda()
    counted = Counted()
    with getattr(torch, how)():
        result = model(square())
    return [counted.found()[1], result.requires_grad, result.is_inference()]


@pytest.mark.parametrize("how", ["no_grad", "inference_mode"])
def test_inference_holds_a_layers_input_and_output(trace, how):
    """The batch, which the caller's frame holds, a hidden tensor and the next; the workspace."""
    traced = trace(inferred, how, workspaces_of=(2, 13))

    assert traced.value == [3 + WORKSPACE // MIB, False, how == "inference_mode"]


def made_on_the_default_device(how):
    if how == "set":
        torch.set_default_device("cuda")
        layer, x = nn.Linear(512, 512, bias=False), torch.randn(512, 512)
    else:
        with torch.device("cuda"):
            layer, x = nn.Linear(512, 512, bias=False), torch.randn(512, 512)
    return [str(layer.weight.device), str(layer(x).device), torch.arange(3, device="cuda").tolist()]


@pytest.mark.parametrize("how", ["set", "with"])
def test_the_default_device(trace, how):
    traced = trace(made_on_the_default_device, how)

    assert traced.value == ["cuda:0", "cuda:0", [0, 1, 2]]
    assert traced.parameters == MIB


def knows_on_the_default_device():
    torch.set_default_device("cuda")
    mask = torch.ones(8, 8).tril().bool()
    chosen = torch.randn(64, 8).topk(2)[1]
    return [int(mask.sum()), len(mask.nonzero()), torch.bincount(chosen.flatten(), minlength=8).tolist()]


def test_values_are_known_with_a_default_device(trace):
    assert trace(knows_on_the_default_device).value == [36, 36, [61, 61, 1, 1, 1, 1, 1, 1]]


def on_a_side_stream():
    side = torch.cuda.Stream()
    x = square()
    with torch.cuda.stream(side):
        y = x * 2
    y.record_stream(torch.cuda.current_stream())
    torch.cuda.current_stream().wait_stream(side)
    held = torch.cuda.memory_allocated()
    del y
    kept = torch.cuda.memory_reserved()
    z = square()
    return [held // MIB, torch.cuda.memory_reserved() > kept, z.shape[0]]


def test_another_streams_memory_is_not_taken(trace):
    """y's block belongs to the side stream's pool: z takes a block of the current stream's own segment."""
    assert trace(on_a_side_stream).value == [2, False, 512]


def twice_through_a_function(how):
    function = {"differentiable": Exp, "once": ExpWithAttributes}[how]
    x = square(requires_grad=True)
    (slope,) = torch.autograd.grad(function.apply(x).square().sum(), x, create_graph=True)
    try:
        slope.sum().backward()
    except RuntimeError as error:
        return str(error)
    return list(x.grad.shape)


def test_a_functions_backward_is_differentiated_unless_it_says_once(trace):
    assert trace(twice_through_a_function, "differentiable").value == [512, 512]
    assert "once_differentiable" in trace(twice_through_a_function, "once").value


def on_two_devices():
    try:
        nn.DataParallel(nn.Linear(512, 512, device="cuda"), device_ids=[0, 1])
    except RuntimeError as error:
        return str(error)


def test_data_parallel_over_devices_that_are_not_there_fails(trace):
    assert "cuda:1 is asked for, and the virtual device that budgets are estimated on has 1" in str(
        trace(on_two_devices).value
    )


def of_a_library():
    library = torch.library.Library("membudget_clients", "DEF")
    library.define("scaled(Tensor x) -> Tensor")
    library.impl("scaled", lambda x: x * 2, "CPU")
    try:
        torch.ops.membudget_clients.scaled(square())
    except Exception as error:
        return [type(error).__name__, str(error), str(virtual_device.refused())]  # noqa: F821 - by the server


def test_an_operator_without_a_fake_kernel_fails(trace):
    name, message, refused = trace(of_a_library).value

    assert name == "UnsupportedOperatorException"
    assert "membudget_clients.scaled.default" in message
    assert "test_client_autograd.py:" in refused
