"""Every tensor of every family: the inventory against modules that transformers builds on the meta device."""

import json

import pytest

from pytest_membudget.formulas.inputs.hugging_face import read_config
from pytest_membudget.formulas.parameters import inventory_of
from tests.formulas.inputs.small_configs import CASES

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")


def built(model_type, class_name, values):
    """The module, without any memory for its weights."""
    config = type(transformers.AutoConfig.for_model(model_type))(**values)
    transformers.logging.set_verbosity_error()
    with torch.device("meta"):
        return getattr(transformers, class_name)(config)


def tensors_of_module(module):
    """Name to shape; a correction of a router is a buffer there."""
    corrections = {
        name: buffer for name, buffer in module.named_buffers() if name.endswith("e_score_correction_bias")
    }
    return {name: tuple(tensor.shape) for name, tensor in (*module.named_parameters(), *corrections.items())}


def named_tensors(model):
    """Full name to tensor of the inventory."""
    inventory = inventory_of(model)
    found, number = {}, {}
    for tensor in (*inventory.before, *inventory.after):
        assert tensor.name not in found
        found[tensor.name] = tensor
    for layers in inventory.layers:
        for _ in range(layers.count):
            index = number.setdefault(layers.path, 0)
            for tensor in layers.tensors:
                name = f"{layers.path}.{index}.{tensor.name}"
                assert name not in found
                found[name] = tensor
            number[layers.path] += 1
    return found


@pytest.mark.parametrize(
    ("model_type", "class_name", "values"),
    CASES,
    ids=[f"{number}-{class_name}" for number, (_, class_name, _) in enumerate(CASES)],
)
class TestEveryTensor:
    def test_has_the_name_and_shape_that_transformers_gives_it(self, model_type, class_name, values):
        module = built(model_type, class_name, values)
        model = read_config({**values, "model_type": model_type, "architectures": [class_name]})

        assert {name: tensor.shape for name, tensor in named_tensors(model).items()} == tensors_of_module(
            module
        )

    def test_is_the_same_from_the_file_that_transformers_writes(self, model_type, class_name, values):
        module = built(model_type, class_name, values)
        written = json.loads(module.config.to_json_string())
        shapes = {
            name: tensor.shape
            for name, tensor in named_tensors(read_config({**written, "architectures": [class_name]})).items()
        }

        assert shapes == tensors_of_module(module)
