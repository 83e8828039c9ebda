"""Code that a GPU run would compile, fuse or spread out: run as written here, and the report says so."""

import pytest
import torch
from torch import nn

MIB = 2**20


def linear():
    return nn.Linear(512, 512, bias=False, device="cuda")  # 1 MiB


def compiler_settings():
    torch._dynamo.config.cache_size_limit = 8
    torch._dynamo.reset()
    torch.compiler.reset()
    return torch.compiler.disable(lambda: 3)()


def test_settings_of_the_compiler_can_be_made(trace):
    assert trace(compiler_settings).value == 3


def scripted():
    return list(torch.jit.script(linear())(torch.randn(2, 512, device="cuda")).shape)


def test_scripted_modules_run(trace):
    assert trace(scripted).value == [2, 512]


def in_parallel():
    model = nn.DataParallel(linear())
    return list(model(torch.randn(4, 512)).shape)


def test_data_parallel_runs_on_the_one_device(trace):
    assert trace(in_parallel).value == [4, 512]


def gru_cell(steps):
    cell = nn.GRUCell(512, 512, bias=False, device="cuda")
    hidden = torch.zeros(1024, 512, device="cuda")
    for _ in range(steps):
        hidden = cell(torch.zeros(1024, 512, device="cuda"), hidden)
    return torch.cuda.memory_allocated()


def test_a_gru_cell_saves_five_hidden_sizes_a_step(trace):
    """2 MiB each: five of its own (``GRU_WORKSPACE_MULTIPLIER`` of RNN.cu), six of gates, input and output.

    Its derivative may be differentiated again (derivatives.yaml), from the gates.
    """
    one, two = trace(gru_cell, 1).value, trace(gru_cell, 2).value

    assert two - one == (5 + 2 * 3 + 2) * 2 * MIB


def encoder(train):
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, device="cuda")
    model = nn.TransformerEncoder(layer, 2).train(train)
    padding = torch.zeros(2, 10, dtype=torch.bool, device="cuda")
    with torch.set_grad_enabled(train):
        output = model(torch.randn(2, 10, 64, device="cuda"), src_key_padding_mask=padding)
    if train:
        output.sum().backward()
    return list(output.shape)


def test_a_transformer_encoder_keeps_its_padding_in_inference(trace):
    fast_path = "nn.Transformer's fast path in inference (nested tensors): traced with its padding"

    inference = trace(encoder, False)
    assert inference.value == [2, 10, 64]
    assert inference.report.not_modelled == (fast_path,)
    assert fast_path not in trace(encoder, True).report.not_modelled


def sparse():
    embedding = nn.Embedding(1024, 256, sparse=True, device="cuda")  # 1 MiB
    optimizer = torch.optim.SparseAdam(embedding.parameters())
    for _ in range(2):
        embedding(torch.randint(0, 1024, (8, 16), device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def test_sparse_gradients_hold_the_rows_that_were_read(trace):
    """128 rows of 256 elements; and a dense pair of states."""
    traced = trace(sparse)

    assert traced.parameters == MIB
    assert traced.optimizer_states == 2 * MIB
    assert traced.gradients <= 128 * 256 * 4 + 128 * 8


def on_the_host():
    embedding = nn.Embedding(1000, 64, sparse=True)
    embedding(torch.arange(10)).sum().backward()
    x = torch.randn(4, 4, requires_grad=True)
    (x.gather(1, torch.zeros(4, 2, dtype=torch.long)).sum() + x[1:].sum() + x.max(1).values.sum()).backward()
    return str(x.grad.device)


def test_a_backward_on_the_host_charges_nothing(trace):
    traced = trace(on_the_host)

    assert traced.value == "cpu"
    assert traced.allocated == 0


def functional_gradient():
    return torch.func.jacrev(torch.sin)(torch.randn(3, device="cuda"))


def lazy():
    return nn.LazyLinear(4, device="cuda")


def no_fake_kernel():
    return torch.ones(2, 2, device="cuda").to_sparse()


def told(name):
    try:
        globals()[name]()
    except Exception as error:
        return [type(error).__name__, str(error)]


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("functional_gradient", "NotAvailable", "torch.autograd.grad and Tensor.backward do"),
        ("lazy", "NotAvailable", "give the module its sizes"),
        ("no_fake_kernel", "UnsupportedOperatorException", "aten._to_sparse"),
    ],
)
def test_what_cannot_work_says_so(trace, name, error, text):
    found, message = trace(told, name).value

    assert found == error
    assert text in message


def forward_mode_and_vmap():
    batched = torch.func.vmap(lambda x: (x * 2).sum())(torch.ones(3, 4, device="cuda"))
    _, tangent = torch.func.jvp(torch.sin, (torch.ones(3, device="cuda"),), (torch.ones(3, device="cuda"),))
    return list(batched.shape), list(tangent.shape)


def test_vmap_and_forward_mode_run(trace):
    assert trace(forward_mode_and_vmap).value == [[3], [3]]
