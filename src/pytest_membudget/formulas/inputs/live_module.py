"""The parameters of a live ``nn.Module``: exact for anything, also for what no reader knows."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from ..number_types import number_type
from ..parameter_tensors import Inventory, LayerTensors, ParameterTensor

if TYPE_CHECKING:
    import torch


def tensors_of_module(module: torch.nn.Module) -> tuple[ParameterTensor, ...]:
    """Each parameter of ``module`` once, in order: full name, shape, number type, trained or frozen.

    A weight that is used twice (tied) has the name under which it comes first. Nothing is read or copied, so
    a module on the meta device does. A sharded one (DTensor) gives whole shapes. Raises ``UsageMistake`` for
    a number type that is not known.
    """
    return tuple(
        ParameterTensor(
            name,
            tuple(parameter.shape),
            "other",
            is_trained=parameter.requires_grad,
            number_type=number_type(str(parameter.dtype)),
        )
        for name, parameter in module.named_parameters()
    )


def inventory_of_module(module: torch.nn.Module) -> Inventory:
    """The parameters of ``module`` by position: before, in and after its layers.

    Layers are the members of the list of modules (``nn.ModuleList``, ``nn.Sequential``) that holds the most
    parameters; neighbours with the same tensors are together. Without such a list all tensors are ``before``.
    """
    tensors = tensors_of_module(module)
    path = _layers_path(module)
    if path is None:
        return Inventory(tensors, (), ())
    prefix = f"{path}."
    layers: dict[str, list[ParameterTensor]] = {}
    before: list[ParameterTensor] = []
    after: list[ParameterTensor] = []
    for tensor in tensors:
        if tensor.name.startswith(prefix):
            number, _, name = tensor.name.removeprefix(prefix).partition(".")
            layers.setdefault(number, []).append(replace(tensor, name=name))
        else:
            (after if layers else before).append(tensor)
    runs = groupby(tuple(members) for members in layers.values())
    grouped = tuple(LayerTensors(members, sum(1 for _ in run), path=path) for members, run in runs)
    return Inventory(tuple(before), grouped, tuple(after))


def _layers_path(module: torch.nn.Module) -> str | None:
    """The list of modules with the most parameters, each counted for its outermost list alone."""
    from torch import nn

    lists = [
        name
        for name, part in module.named_modules()
        if isinstance(part, nn.ModuleList | nn.Sequential | nn.ModuleDict) and name
    ]
    sizes: dict[str, int] = defaultdict(int)
    for name, parameter in module.named_parameters():
        outermost = next((path for path in lists if name.startswith(f"{path}.")), None)
        if outermost is not None:
            sizes[outermost] += parameter.numel()
    return max(sizes, key=lambda path: sizes[path]) if sizes else None
