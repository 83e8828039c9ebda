"""Autograd works in place on the virtual device where it does so on a real one.

The truth is autograd itself on real host tensors: the same C++ code, which the profiler listens to.
"""

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

#: Operators that differ between the ways to write into a tensor.
WRITERS = (
    "add", "add_", "scatter_add", "scatter_add_", "scatter", "scatter_", "index_add", "index_add_",
    "index_put", "index_put_", "_index_put_impl", "_index_put_impl_", "masked_fill", "masked_fill_",
    "masked_scatter", "masked_scatter_", "put", "put_", "index_copy", "index_copy_", "copy", "copy_",
    "slice_scatter", "select_scatter", "index_fill", "index_fill_",
)  # fmt: skip


#: Backward operators that CUDA's dispatcher calls as one: what they write to is their own output.
ONE_OPERATOR = ("aten::slice_backward", "aten::select_backward")


def leaf(*shape, device):
    return torch.rand(*shape, device=device, requires_grad=True)


def fan_in(device):
    x = leaf(64, device=device)
    h = x * 2
    return h.exp() + h.sin() + h.cos()


def shared_gradient(device):
    x = leaf(64, device=device)
    h = x * 2
    return (h + h).exp() + h


def square(device):
    h = leaf(64, device=device) * 2
    return h * h


def residual(device):
    x = leaf(4, 8, device=device)
    weight = leaf(8, 8, device=device)
    h = x @ weight
    for _ in range(3):
        h = h + (h @ weight).relu()
    return h


def gather(device):
    x = leaf(8, 8, device=device) * 2
    return x.gather(1, torch.zeros(8, 3, dtype=torch.long, device=device))


def index(device):
    x = leaf(8, 8, device=device) * 2
    return x[torch.zeros(3, dtype=torch.long, device=device)]


def index_select(device):
    x = leaf(8, 8, device=device) * 2
    return x.index_select(0, torch.zeros(3, dtype=torch.long, device=device))


def largest(device):
    return (leaf(8, 8, device=device) * 2).max(dim=1).values


def topk(device):
    return (leaf(8, 8, device=device) * 2).topk(3).values


def sort(device):
    return (leaf(8, 8, device=device) * 2).sort().values


def kthvalue(device):
    return (leaf(8, 8, device=device) * 2).kthvalue(2).values


def take(device):
    return (leaf(8, 8, device=device) * 2).take(torch.zeros(3, dtype=torch.long, device=device))


def slices(device):
    x = leaf(8, 8, device=device) * 2
    return x[:4].exp() + x[4:].sin() + x[:, 0].sum()


def masked(device):
    x = leaf(8, 8, device=device) * 2
    return x.masked_fill(torch.zeros(8, 8, dtype=torch.bool, device=device), 1.0)


def split(device):
    first, second = (leaf(8, 8, device=device) * 2).split(4)
    return first.exp() + second


def unbound(device):
    first, second = (leaf(2, 8, device=device) * 2).unbind()
    return first.exp() + second


def softmax_loss(device):
    x = leaf(8, 16, device=device) * 2
    return torch.nn.functional.cross_entropy(x, torch.zeros(8, dtype=torch.long, device=device))


def embedding(device):
    weight = leaf(8, 4, device=device)
    tokens = torch.zeros(6, dtype=torch.long, device=device)
    return torch.nn.functional.embedding(tokens, weight) + torch.nn.functional.embedding(tokens, weight)


BODIES = [
    fan_in, shared_gradient, square, residual, gather, index, index_select, largest, topk, sort, kthvalue,
    take, slices, masked, split, unbound, softmax_loss, embedding,
]  # fmt: skip


def on_host(body):
    """The writing operators of a backward on real tensors; those inside a kernel's own work left out."""
    loss = body("cpu").sum()
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiler:
        loss.backward()
    return [name for event in profiler.events() if (name := writer(event)) is not None]


def writer(event):
    name = event.name.removeprefix("aten::")
    parent = event.cpu_parent.name if event.cpu_parent is not None else ""
    inside = parent.startswith("aten::") and not parent.endswith("_backward")
    if name not in WRITERS or inside or parent in ONE_OPERATOR:
        return None
    return plain(name)


def plain(name):
    """``index_put_`` and what it is implemented by are one operator here."""
    return "index_put_" if name == "_index_put_impl_" else name


def on_virtual(name):
    from pytest_membudget.devices.fake import mode as mode_module

    seen = []
    run = mode_module.VirtualMode._run

    def listen(self, func, types, args, kwargs):
        if torch._C._current_graph_task_id() != -1:
            seen.append(func.name().removeprefix("aten::").partition(".")[0])
        return run(self, func, types, args, kwargs)

    mode_module.VirtualMode._run = listen
    globals()[name]("cuda").sum().backward()
    return [plain(name) for name in seen if name in WRITERS]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_backward_writes_as_it_does_on_real_tensors(trace, body):
    traced = trace(on_virtual, body.__name__)

    assert traced.value == on_host(body)


def assigned_to_a_slice():
    parameter = torch.zeros(2**20, device="cuda", requires_grad=True)
    whole = torch.zeros(2**20, device="cuda")
    doubled = parameter * 2
    whole[:] = doubled
    whole.sum().backward()


def test_the_gradient_of_what_was_assigned_is_not_copied_to_where_it_is(trace):
    """parameter, whole, doubled, the parameter's gradient; the loss and its gradient.

    The gradient of doubled is that of whole, which the sum's backward gives expanded: it has no memory.
    """
    assert trace(assigned_to_a_slice).allocated == 4 * 4 * 2**20 + 2 * 512
