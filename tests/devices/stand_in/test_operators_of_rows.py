"""Each allocation has the name that PyTorch's dispatcher has of the operator that asked for it."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from pytest_membudget.devices.real.recorded_run import RecordedRun


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.pow(3)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def square():
    return torch.ones(512, 512, device="cuda", requires_grad=True)


def index():
    return torch.zeros(512, 512, device="cuda", dtype=torch.long)


def stepped(optimizer, **options):
    weight = square()
    weight.grad = torch.ones_like(weight)
    one = optimizer([weight], **options)
    one.step()
    return one


#: by kind: what is kept, and the operators of its own allocations beside the arguments'
#: (aten/src/ATen/native/native_functions.yaml, 2.13)
KINDS = {
    "batched product": (lambda: square()[None] @ square()[None], {"aten::bmm"}),
    "its broadcast copy": (lambda: square().view(4, 1, 512, 128) @ square().view(4, 128, 512), {"aten::bmm"}),
    "product with a bias": (lambda: F.linear(square(), square(), square()[0]), {"aten::addmm"}),
    "convolution": (
        lambda: F.conv2d(square()[None, None], square()[None, None, :3, :3]),
        {"aten::cudnn_convolution"},
    ),
    "attention": (
        lambda: F.scaled_dot_product_attention(*[square().view(1, 8, 64, 512)] * 3),
        {"aten::_efficient_attention_forward"},
    ),
    "scatter": (lambda: square().detach().scatter(0, index(), 1.0), {"aten::scatter.value"}),
    "scatter in place": (
        lambda: torch.zeros_like(square()).scatter_add_(0, index(), square()),
        {"aten::zeros_like"},
    ),
    "embedding": (lambda: F.embedding(index()[0], square()), {"aten::index_select"}),
    "sort": (lambda: square().sort(), {"aten::sort.stable"}),
    "loss": (lambda: F.cross_entropy(square(), index()[0]), {"aten::_log_softmax", "aten::nll_loss_forward"}),
    "resized tensor": (lambda: torch.empty(0, device="cuda").resize_(2**20), {"aten::resize_"}),
    "resized storage": (lambda: square().untyped_storage().resize_(2**22), {"UntypedStorage.resize_"}),
    "result given": (
        lambda: torch.mm(index().float(), index().float(), out=index()[:0].float()),
        {"aten::mm.out"},
    ),
    "custom function": (lambda: Cube.apply(square()), {"aten::pow.Tensor_Scalar"}),
    "checkpoint": (lambda: checkpoint(torch.sin, square(), use_reentrant=False), {"aten::sin"}),
    "foreach optimizer": (lambda: stepped(torch.optim.Adam, foreach=True), {"aten::zeros_like"}),
    "fused optimizer": (lambda: stepped(torch.optim.AdamW, fused=True), {"aten::zeros_like"}),
    "recurrent": (lambda: nn.LSTM(512, 64).cuda()(square()[None])[0], {"aten::_cudnn_rnn"}),
}


def live_operators(kind):
    """The operators of what a kind has kept; and of all that it has allocated, those of no dispatcher."""
    run = RecordedRun()
    run.begin()
    kept = KINDS[kind][0]()  # noqa: F841
    ledger = run.end().ledger
    live = {record.operator for record in ledger.live.values() if record.role != "workspaces"}
    known = {*torch._C._dispatch_get_all_op_names(), "UntypedStorage.resize_"}
    of_all = {record.operator for record in ledger.alive_at(ledger.allocated_peak)} | live
    return sorted(live), sorted(of_all - known)


@pytest.mark.parametrize("kind", KINDS)
def test_an_allocation_is_its_operators(stand_in, kind):
    live, unknown = stand_in(live_operators, kind)

    assert unknown == []
    assert KINDS[kind][1] <= set(live)


def workspaces():
    left = torch.ones(8, 512, 512, device="cuda", requires_grad=True)
    run = RecordedRun()
    run.begin()
    (left @ left).sum().backward()
    ledger = run.end().ledger
    peak = ledger.alive_at(ledger.allocated_peak)
    return sorted({record.operator for record in peak if record.role == "workspaces"})


def test_a_librarys_workspace_is_that_of_the_operator_that_called_it(stand_in):
    """cuBLAS has one for each thread's handle: that of the forward, and that of autograd's thread."""
    assert stand_in(workspaces) == ["aten::bmm"]
