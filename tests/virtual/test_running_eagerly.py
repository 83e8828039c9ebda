"""Code that a GPU run would compile, fuse or spread out: run as written here, and the report says so."""

import copy
import io

import pytest
import torch
from torch import nn

MIB = 2**20
COMPILED = "torch.compile: {} is traced as eager code, which keeps what a compiled one fuses away"


def linear():
    return nn.Linear(512, 512, bias=False, device="cuda")  # 1 MiB


def plain_step():
    model = nn.Sequential(linear(), nn.GELU())
    model(torch.randn(1024, 512, device="cuda")).sum().backward()


def compiled_step():
    model = torch.compile(nn.Sequential(linear(), nn.GELU()), mode="max-autotune", fullgraph=True)
    model(torch.randn(1024, 512, device="cuda")).sum().backward()
    return [
        sorted(model.state_dict()), type(model._orig_mod).__name__, model.training,
        model.eval()._orig_mod[0].training, len(list(model.parameters())), len(model),
        torch.compiler.is_compiling(),
    ]  # fmt: skip


def test_a_compiled_module_is_traced_as_eager_code_and_that_is_listed(trace):
    plain, compiled = trace(plain_step), trace(compiled_step)

    assert compiled.value == [["_orig_mod.0.weight"], "Sequential", True, False, 1, 2, False]
    assert compiled.report.components == plain.report.components
    assert plain.report.not_modelled == ()
    assert compiled.report.not_modelled == (COMPILED.format("Sequential"),)


def compiled_and_changed():
    model = torch.compile(linear())
    model.tag = "mine"
    model.eval()
    twin = copy.deepcopy(model)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    return [
        model._orig_mod.tag, model._orig_mod.training, twin.tag, twin.weight is model.weight,
        list(loaded.weight.shape), list(loaded(torch.randn(1, 512, device="cuda")).shape),
    ]  # fmt: skip


def test_a_compiled_module_is_changed_copied_and_saved_as_its_own(trace):
    assert trace(compiled_and_changed).value == ["mine", False, "mine", False, [512, 512], [1, 512]]


def compiled_in_other_ways(how):
    @torch.compile
    def doubled(x):
        return x * 2

    @torch.compile(dynamic=True)
    def tripled(x):
        return x * 3

    module = linear()
    module.compile(backend="inductor")
    x = torch.ones(2, 512, device="cuda")
    return {
        "decorator": lambda: doubled(x)[0, 0].item(),
        "decorator with options": lambda: tripled(x)[0, 0].item(),
        "Module.compile": lambda: module(x).shape[1],
        "name": lambda: doubled.__name__,
    }[how]()


@pytest.mark.parametrize(
    ("how", "value", "regions"),
    [
        ("decorator", 2.0, ["compiled_in_other_ways.<locals>.doubled"]),
        ("decorator with options", 3.0, ["compiled_in_other_ways.<locals>.tripled"]),
        ("Module.compile", 512, ["Linear"]),
        ("name", "doubled", []),
    ],
)
def test_compiled_code_is_listed_where_it_runs(trace, how, value, regions):
    traced = trace(compiled_in_other_ways, how)

    assert traced.value == value
    assert traced.report.not_modelled == tuple(COMPILED.format(region) for region in regions)


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
    return torch.func.grad(lambda x: x.sin().sum())(torch.randn(3, device="cuda"))


def lazy():
    return nn.LazyLinear(4, device="cuda")


def no_fake_kernel():
    return torch.ones(2, 2, device="cuda").to_sparse()


def flexible_attention():
    from torch.nn.attention.flex_attention import flex_attention

    q = torch.randn(1, 2, 128, 16, device="cuda")
    return flex_attention(q, q, q)


def told(name):
    try:
        globals()[name]()
    except Exception as error:
        return [type(error).__name__, str(error)]


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("functional_gradient", "NotAvailable", "torch.autograd.grad and Tensor.backward do"),
        ("flexible_attention", "NotAvailable", "torch.ops.higher_order.flex_attention is not part of"),
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
