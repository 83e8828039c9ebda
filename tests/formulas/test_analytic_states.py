"""What optimizers keep: against torch's and others' own on CPU tensors, and against published figures."""

import math
from dataclasses import replace

import pytest
import torch

from pytest_membudget.errors import UsageMistake
from pytest_membudget.formulas import states
from pytest_membudget.formulas.job import Job, Optimizer, Precision
from pytest_membudget.formulas.local_tensors import LocalTensor
from pytest_membudget.formulas.model import Attention, FeedForward, Layer, Model, Stack
from pytest_membudget.formulas.terms import by_component, total_bytes

GIB = 2**30
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
SHAPES = ((301, 203), (203,), (64, 64), (7, 5, 3), (4096,), (31, 129))


def job(optimizer=None, **fields):
    layer = Layer(Attention(heads=1, kv_heads=1, head_dim=8), FeedForward(intermediate=8))
    model = Model("none", "LlamaForCausalLM", vocab=8, decoder=Stack(((layer, 1),), hidden=8))
    return Job(model, optimizer=optimizer or Optimizer(), **fields)


def tensor(*shape, kind="fp32", place="feed_forward", name="weight", **fields):
    return LocalTensor(name, shape, place, kind, **fields)


def all_states(tensors, asked):
    return total_bytes([*states.state_terms(tensors, asked), *states.host_terms(tensors, asked)])


def really_kept(make, shapes, kind):
    """Bytes of all tensors in the state of a real optimizer after two steps."""
    parameters = [torch.nn.Parameter(torch.randn(shape).to(TYPES[kind])) for shape in shapes]
    optimizer = make(parameters)
    for _ in range(2):
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        optimizer.step()
    storages = {}
    for state in optimizer.state.values():
        for value in state.values():
            for part in parts(value):
                storages[part.untyped_storage().data_ptr()] = part.nbytes
    return sum(storages.values())


def parts(value):
    if not isinstance(value, torch.Tensor):
        return []
    names = getattr(value, "tensor_attrs", None)  # torchao's
    return [value] if names is None else [getattr(value, name) for name in names]


TORCHS = {
    "Adadelta": (Optimizer("adadelta"), {}),
    "Adagrad": (Optimizer("adagrad"), {}),
    "Adam": (Optimizer("adam"), {}),
    "Adam-amsgrad": (Optimizer("adam", amsgrad=True), {"amsgrad": True}),
    "AdamW": (Optimizer("adamw"), {}),
    "AdamW-fused": (Optimizer("adamw", implementation="fused"), {"fused": True}),
    "Adagrad-fused": (Optimizer("adagrad", implementation="fused"), {"fused": True}),
    "Adamax": (Optimizer("adamax"), {}),
    "ASGD": (Optimizer("asgd"), {}),
    "NAdam": (Optimizer("nadam"), {}),
    "RAdam": (Optimizer("radam"), {}),
    "RMSprop": (Optimizer("rmsprop"), {}),
    "RMSprop-all": (Optimizer("rmsprop", centered=True, momentum=True), {"centered": True, "momentum": 0.9}),
    "Rprop": (Optimizer("rprop"), {}),
    "SGD": (Optimizer("sgd"), {}),
    "SGD-momentum": (Optimizer("sgd", momentum=True), {"momentum": 0.9}),
    "SGD-fused": (Optimizer("sgd", momentum=True, implementation="fused"), {"momentum": 0.9, "fused": True}),
    "Adafactor": (Optimizer("adafactor"), {}),
    "Muon": (Optimizer("muon"), {}),
}


@pytest.mark.parametrize("kind", ["fp32", "bf16"])
@pytest.mark.parametrize("name", TORCHS)
def test_torchs_own_optimizers_keep_as_much(name, kind):
    optimizer, arguments = TORCHS[name]
    made = getattr(torch.optim, name.split("-")[0])
    shapes = [shape for shape in SHAPES if len(shape) == 2] if name == "Muon" else SHAPES

    kept = really_kept(lambda parameters: made(parameters, **arguments), shapes, kind)

    assert all_states([tensor(*shape, kind=kind) for shape in shapes], job(optimizer)) == kept


def test_every_optimizer_of_torch_is_here_but_for_two():
    """LBFGS keeps what its search needed; SparseAdam's gradients have the sizes of the data."""
    made = {
        name
        for name, found in vars(torch.optim).items()
        if isinstance(found, type) and issubclass(found, torch.optim.Optimizer)
    }

    assert made - {name.split("-")[0] for name in TORCHS} == {"Optimizer", "LBFGS", "SparseAdam"}


@pytest.mark.filterwarnings("ignore")  # of whatever transformers finds installed
@pytest.mark.parametrize("kind", ["fp32", "bf16"])
@pytest.mark.parametrize("beta1", [None, 0.9])
def test_transformers_adafactor_keeps_as_much(beta1, kind):
    from transformers.optimization import Adafactor

    optimizer = Optimizer("adafactor", library="transformers", has_first_moment=beta1 is not None)

    kept = really_kept(lambda parameters: Adafactor(parameters, beta1=beta1), SHAPES, kind)

    assert all_states([tensor(*shape, kind=kind) for shape in SHAPES], job(optimizer)) == kept


@pytest.mark.parametrize("kind", ["fp32", "bf16"])
def test_lion_keeps_as_much(kind):
    lion = pytest.importorskip("lion_pytorch")

    kept = really_kept(lion.Lion, SHAPES, kind)

    assert all_states([tensor(*shape, kind=kind) for shape in SHAPES], job(Optimizer("lion"))) == kept


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["fp32", "bf16"])
@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("AdamW8bit", {"name": "adamw", "bits": 8}),
        ("Adam8bit", {"name": "adam", "bits": 8}),
        ("AdamW", {"name": "adamw"}),
        ("Lion8bit", {"name": "lion", "bits": 8}),
        ("RMSprop8bit", {"name": "rmsprop", "bits": 8}),
        ("Adagrad8bit", {"name": "adagrad", "bits": 8}),
    ],
)
def test_bitsandbytes_optimizers_keep_as_much(name, fields, kind):
    optim = pytest.importorskip("bitsandbytes.optim")

    kept = really_kept(getattr(optim, name), SHAPES, kind)

    asked = job(Optimizer(library="bitsandbytes", **fields))
    assert all_states([tensor(*shape, kind=kind) for shape in SHAPES], asked) == kept


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["fp32", "bf16"])
@pytest.mark.parametrize(
    ("name", "fields"),
    [("AdamW8bit", {"bits": 8}), ("AdamW4bit", {"bits": 4}), ("AdamWFp8", {"bits": 8, "is_fp8": True})],
)
def test_torchaos_optimizers_keep_as_much(monkeypatch, name, fields, kind):
    optim = pytest.importorskip("torchao.optim")
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)

    kept = really_kept(getattr(optim, name), SHAPES, kind)

    asked = job(Optimizer(library="torchao", **fields))
    assert all_states([tensor(*shape, kind=kind) for shape in SHAPES], asked) == kept


def test_8_bit_states_by_hand():
    """A byte an element and moment, an fp32 maximum a block of 256; two tables of 1 KiB for all."""
    asked = job(Optimizer(library="bitsandbytes", bits=8))
    found = [tensor(1000, 100, count=3), tensor(64)]

    terms = states.state_terms(found, asked)

    blocks = math.ceil(100_000 / 256)
    assert total_bytes(terms) == 3 * 2 * (100_000 + 4 * blocks) + 2 * 64 * 4 + 2 * 1024


def test_embeddings_can_have_32_bit_states():
    optimizer = Optimizer(library="bitsandbytes", bits=8, in_32_bits=("embedding",))
    found = [tensor(1000, 100, place="embedding", name="model.embed_tokens.weight")]

    assert total_bytes(states.state_terms(found, job(optimizer))) == 100_000 * 8
    by_name = replace(optimizer, in_32_bits=("embed_tokens",))
    assert total_bytes(states.state_terms(found, job(by_name))) == 100_000 * 8


def test_paged_states_are_the_hosts():
    """100,000 elements and more; maxima and tables stay on the card (get_state_buffer, 0.50.2)."""
    asked = job(Optimizer(library="bitsandbytes", bits=8, is_paged=True))
    found = [tensor(1000, 100), tensor(100, 100, name="small")]

    assert total_bytes(states.host_terms(found, asked)) == 2 * 100_000
    assert total_bytes(states.state_terms(found, asked)) == 2 * (391 * 4 + 10_000 + 40 * 4 + 1024)


def test_lion_keeps_one_momentum_as_large_as_its_parameter():
    """``state["exp_avg"] = torch.zeros_like(p)`` and no more (lion_pytorch/lion_pytorch.py, 0.2.5)."""
    asked = job(Optimizer("lion"))

    assert all_states([tensor(100, 10), tensor(30, kind="bf16")], asked) == 4000 + 60


def test_muon_leaves_embeddings_heads_and_vectors_to_adamw():
    asked = job(Optimizer("muon"))
    found = [
        tensor(100, 10, place="embedding", name="embedding"),
        tensor(10, 20, name="projection"),
        tensor(10, place="norm", name="norm"),
        tensor(100, 10, place="head", name="head"),
    ]

    kept = {term.name: term.bytes for term in states.state_terms(found, asked)}

    assert kept["projection.momentum_buffer"] == 800
    assert kept["embedding.exp_avg"] == kept["head.exp_avg_sq"] == 4000
    assert sum(kept.values()) == 800 + 2 * (4000 + 40 + 4000)
    assert total_bytes(states.step_temporaries(found, asked)) == 8040  # AdamW's list of square roots


def test_the_seeds_table_of_bytes_a_parameter():
    """AdamW 8, Adafactor 4 (with a first moment, as transformers' documentation reckons), 8-bit AdamW 2."""
    shape = (4096, 4096)
    adafactor = Optimizer("adafactor", library="transformers", has_first_moment=True)

    assert states.bytes_a_parameter(Optimizer("adamw"), "fp32", shape) == 8
    assert states.bytes_a_parameter(adafactor, "fp32", shape) == pytest.approx(4, rel=1e-3)
    assert states.bytes_a_parameter(Optimizer("adafactor"), "fp32", shape) == 4 * 2 / 4096
    eight = Optimizer("adamw", library="bitsandbytes", bits=8)
    assert states.bytes_a_parameter(eight, "bf16", shape) == 2 + 2 * 4 / 256


def test_distilling_a_14b_teacher_into_a_3b_student():
    """torchtune's table: 6 + 6 + 12 + 28 GB = 48.4 GiB (its text says GiB)."""
    student = tensor(3_000_000_000, kind="bf16")
    teacher = tensor(14_000_000_000, kind="bf16", is_trained=False)
    asked = job()

    terms = [
        *states.resident_terms([student, teacher], asked),
        *states.gradient_terms([student, teacher], asked),
    ]

    assert by_component(terms) == {
        "parameters": 6 * 10**9,
        "optimizer_states": 12 * 10**9,
        "frozen_parameters": 28 * 10**9,
        "gradients": 6 * 10**9,
    }
    assert round(total_bytes(terms) / GIB, 1) == 48.4


def test_a_billion_fp32_parameters_are_3_725_gib():
    assert round(total_bytes(states.parameter_terms([tensor(10**9)], job())) / GIB, 3) == 3.725


def test_llama_13b_in_fp32_is_52_gb():
    assert total_bytes(states.parameter_terms([tensor(13 * 10**9)], job())) == 52 * 10**9


def test_adam_in_mixed_precision_with_8_bit_states():
    """The survey: the copy stays 4 bytes, each moment becomes 1 (and a maximum a block of 256)."""
    asked = job(Optimizer(library="bitsandbytes", bits=8, keeps_master=True))
    elements = 256 * 10**6

    terms = states.state_terms([tensor(elements, kind="bf16")], asked)

    assert total_bytes(terms) == elements * (4 + 1 + 1) + 2 * (elements // 256 * 4 + 1024)


def test_llama3_8b_on_two_cards():
    """torchtitan: 8B x 4 bytes x 3 / 2 = 48 GB a GPU."""
    assert total_bytes(states.resident_terms([tensor(4 * 10**9)], job())) == 48 * 10**9


def test_deepseek_v3_in_16_bits():
    """671B: 1,342 GB of parameters; with 16-bit gradients and moments 5,368 GB."""
    found = [tensor(671 * 10**9, kind="bf16")]
    terms = [*states.resident_terms(found, job()), *states.gradient_terms(found, job())]

    assert total_bytes(states.parameter_terms(found, job())) == 1342 * 10**9
    assert total_bytes(terms) == 5368 * 10**9


def test_zeros_example():
    """Rajbhandari et al. 2020, figure 1: 7.5B, 64 ranks: 120, 31.4, 16.6 and 1.9 GB."""
    asked = job(Optimizer(keeps_master=True, implementation="fused"))
    whole = [tensor(7_500_000_000, kind="bf16")]
    part = [tensor(7_500_000_000 // 64, kind="bf16")]

    def stage(parameters, gradients, kept):
        terms = [
            *states.parameter_terms(parameters, asked),
            *states.gradient_terms(gradients, asked),
            *states.state_terms(kept, asked),
        ]
        return round(sum(term.bytes for term in terms if "step" not in term.name) / 10**9, 1)

    stages = [stage(whole, whole, whole), stage(whole, whole, part)]
    stages += [stage(whole, part, part), stage(part, part, part)]
    assert stages == [120.0, 31.4, 16.6, 1.9]


def test_vit_l16s_parts_in_the_tutorial():
    """PyTorch's tutorial on the step in backward: 1.2 GB parameters, 1.2 gradients, 2.4 states, 1.2 lists."""
    found = [tensor(304_326_632)]  # torchvision's vit_l_16

    def gb(terms):
        return round(total_bytes(terms) / 10**9, 1)

    assert gb(states.parameter_terms(found, job())) == gb(states.gradient_terms(found, job())) == 1.2
    assert gb(states.state_terms(found, job())) == 2.4
    assert gb(states.step_temporaries(found, job())) == 1.2
    assert states.step_temporaries(found, job(Optimizer(implementation="fused"))) == ()


def test_megatrons_optimizer_keeps_a_copy_and_two_moments_in_fp32():
    asked = job(Optimizer(library="megatron"), precision=Precision("megatron"))
    found = [tensor(100, 10, kind="bf16")]

    assert total_bytes(states.state_terms(found, asked)) == 12_000
    assert total_bytes(states.gradient_terms(found, asked)) == 4000
    assert states.step_temporaries(found, asked) == ()
    assert states.holds_gradients(asked)


def test_a_master_copys_gradients_are_made_for_the_step():
    asked = job(Optimizer(implementation="fused", keeps_master=True))

    terms = states.step_temporaries([tensor(100, 10, kind="bf16")], asked)

    assert total_bytes(terms) == 4000
    assert states.step_temporaries([tensor(100, 10)], asked) == ()


def test_offloaded_states_are_the_hosts_and_so_is_the_step():
    asked = job(offload=frozenset({"optimizer_states", "parameters"}))
    found = [tensor(100, 10), tensor(10)]

    assert states.resident_terms(found, asked) == ()
    assert states.step_temporaries(found, asked) == ()
    assert total_bytes(states.host_terms(found, asked)) == 4040 * 3 + 2 * 4
    assert total_bytes(states.host_step_temporaries(found, asked)) == 8000  # foreach is for cards


def test_gradients_are_held_only_where_something_holds_them():
    assert not states.holds_gradients(job())
    assert states.holds_gradients(job(accumulation=2))
    assert states.holds_gradients(job(zeroes_to_none=False))
    assert not states.holds_gradients(job(Optimizer(in_backward=True), accumulation=2))


def test_a_loops_temporaries_see_the_last_layers_before_the_next_ones():
    """AdamW's loop: two of one parameter, and the last one's that is still bound."""
    asked = job(Optimizer(implementation="loop"))
    found = [
        tensor(1024, count=4, layer="layers", name="first"),
        tensor(512, count=4, layer="layers", name="last"),
    ]

    assert total_bytes(states.step_temporaries(found, asked)) == 4 * (2 * 1024 + 512)


def test_clipping_by_hand():
    """Three gradients, the largest of two chunks of 65,536: three norms and 3 x 2 partial ones in fp32."""
    asked = job(Optimizer(implementation="fused", clips_gradients=True))
    found = [tensor(70_000, kind="bf16"), tensor(10, kind="bf16", count=2)]

    assert total_bytes(states.step_temporaries(found, asked)) in (3 * 2 + 3 * 2 * 4, 3 * 2 + 3 * 2 + 2)
    many = [tensor(70_000, kind="bf16"), tensor(10, kind="bf16", count=999)]
    assert total_bytes(states.step_temporaries(many, asked)) == 1000 * 2 + 1000 * 2 * 4


def test_rounding_is_a_tensors():
    terms = states.parameter_terms([tensor(3, 5, count=7)], job())

    assert [(term.bytes, term.allocated_bytes) for term in terms] == [(7 * 60, 7 * 512)]


@pytest.mark.parametrize(
    ("optimizer", "says"),
    [
        (Optimizer("adamv"), "write one of adam"),
        (Optimizer("adamw", bits=8), "library 'bitsandbytes' or 'torchao'"),
        (Optimizer("adafactor", library="bitsandbytes"), "write one of adamw"),
        (Optimizer("adamw", library="torchao"), "write bits 8 or 4"),
        (Optimizer("adamw", library="bitsandbytes", bits=4), "write bits 8"),
        (Optimizer("adafactor", has_first_moment=True), "library 'transformers'"),
        (Optimizer("sgd", library="bitsandbytes"), "needs a momentum"),
    ],
)
def test_what_does_not_exist_is_an_error(optimizer, says):
    with pytest.raises(UsageMistake, match=says):
        states.state_terms([tensor(100, 100)], job(optimizer))


@pytest.mark.parametrize(("name", "how"), [("rmsprop", "fused"), ("lion", "foreach")])
def test_an_implementation_that_does_not_exist_is_an_error(name, how):
    with pytest.raises(UsageMistake, match="loop"):
        states.step_temporaries([tensor(10)], job(Optimizer(name, implementation=how)))


def test_a_compiled_step_says_what_is_not_modelled():
    assert states.not_modelled(job()) == ()
    assert "compiled" in states.not_modelled(job(Optimizer(library="torchao", bits=8)))[0]
