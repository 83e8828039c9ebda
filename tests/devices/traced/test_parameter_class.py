"""Parameters made by the class of other parameters, as accelerate makes them."""

import torch
from torch import nn

MIB = 2**20


def placed():
    layer = nn.Linear(512, 512, bias=False)
    kind = type(layer.weight)
    empty = kind(layer.weight.to("meta"), **{**layer.weight.__dict__, "requires_grad": True})
    kind, held = type(empty), torch.cuda.memory_allocated()
    layer.weight = kind(torch.ones(512, 512, device="cuda"), requires_grad=empty.requires_grad)
    frozen = kind(layer.weight, requires_grad=False)
    return [
        str(empty.device), isinstance(empty, nn.Parameter), empty.requires_grad, held,
        str(layer.weight.device), isinstance(layer.weight, nn.Parameter), layer.weight.requires_grad,
        frozen.requires_grad, frozen.untyped_storage() is layer.weight.untyped_storage(),
        isinstance(frozen, nn.Parameter), list(layer.state_dict()),
    ]  # fmt: skip


def test_the_class_of_a_parameter_makes_parameters_of_other_data(trace):
    traced = trace(placed)

    assert traced.value == [
        "meta", True, True, 0, "cuda:0", True, True, False, True, True, ["weight"],
    ]  # fmt: skip
    assert traced.allocated == traced.parameters == MIB
