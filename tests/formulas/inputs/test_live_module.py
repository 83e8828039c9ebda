"""Parameters of a live module, on the meta device."""

import pytest

from pytest_membudget.errors import UsageMistake
from pytest_membudget.formulas.inputs.live_module import inventory_of_module, tensors_of_module

torch = pytest.importorskip("torch")


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = torch.nn.Linear(8, width)
        self.inner = torch.nn.Sequential(torch.nn.Linear(width, 8, bias=False))


class Small(torch.nn.Module):
    def __init__(self, *, tied=True):
        super().__init__()
        self.embed = torch.nn.Embedding(11, 8)
        self.blocks = torch.nn.ModuleList([Block(12), Block(12), Block(13)])
        self.norm = torch.nn.LayerNorm(8)
        self.head = torch.nn.Linear(8, 11, bias=False)
        if tied:
            self.head.weight = self.embed.weight


def small(**settings):
    with torch.device("meta"):
        return Small(**settings)


def test_every_parameter_has_its_name_shape_and_type():
    module = small()
    module.norm.to(torch.bfloat16)

    found = {t.name: (t.shape, t.number_type) for t in tensors_of_module(module)}

    assert found["embed.weight"] == ((11, 8), "fp32")
    assert found["norm.weight"] == ((8,), "bf16")
    assert found["blocks.2.inner.0.weight"] == ((8, 13), "fp32")


def test_a_tied_weight_counts_once():
    assert "head.weight" not in {t.name for t in tensors_of_module(small())}
    assert "head.weight" in {t.name for t in tensors_of_module(small(tied=False))}


def test_frozen_parameters_are_distinguished():
    module = small()
    module.embed.requires_grad_(False)

    assert [t.name for t in tensors_of_module(module) if not t.is_trained] == ["embed.weight"]


def test_identical_layers_are_grouped():
    inventory = inventory_of_module(small(tied=False))

    assert [t.name for t in inventory.before] == ["embed.weight"]
    assert [(each.count, each.path) for each in inventory.layers] == [(2, "blocks"), (1, "blocks")]
    assert [t.name for t in inventory.layers[0].tensors] == ["up.weight", "up.bias", "inner.0.weight"]
    assert [t.name for t in inventory.after] == ["norm.weight", "norm.bias", "head.weight"]


def test_the_count_is_the_modules():
    module = small()

    assert inventory_of_module(module).elements == sum(p.numel() for p in module.parameters())


def test_a_module_without_layers_is_all_before_them():
    inventory = inventory_of_module(torch.nn.Linear(3, 5, device="meta"))

    assert [(t.name, t.shape) for t in inventory.before] == [("weight", (5, 3)), ("bias", (5,))]
    assert inventory.layers == inventory.after == ()


def test_a_number_type_that_is_not_known_is_named():
    module = torch.nn.Linear(3, 5, device="meta", dtype=torch.complex64)

    with pytest.raises(UsageMistake, match=r"torch\.complex64"):
        tensors_of_module(module)


def test_a_transformers_model_has_what_its_configuration_says():
    transformers = pytest.importorskip("transformers")
    from pytest_membudget.formulas.inputs.hugging_face import read_config
    from pytest_membudget.formulas.parameters import parameter_count
    from tests.formulas.inputs.small_configs import DECODER

    with torch.device("meta"):
        module = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**DECODER))

    inventory = inventory_of_module(module)
    assert inventory.elements == parameter_count(read_config({**DECODER, "model_type": "qwen2"}))
    assert [(each.count, each.path) for each in inventory.layers] == [(3, "model.layers")]
