"""Which tensors an adapter's targets name, and with what rank: peft's rules.

Read in peft 0.21.2: ``_maybe_include_all_linear_layers`` in peft/tuners/tuners_utils.py and
``_convert_peft_config_moe`` in peft/utils/transformers_weight_conversion.py; families of experts in
conversion_mapping.py of transformers 5.23.0.

For models whose experts were linear layers in transformers 4 and are stacked in 5, peft turns the names that
these layers had into the stacked parameters': two that are one now get twice the rank. The names then mean
the experts alone: dense layers and shared experts of the same names get no adapters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ..errors import UsageMistake
from .job import Adapter
from .model import Model
from .parameter_tensors import ParameterTensor

ALL_LINEAR: Final = "all-linear"
_LINEAR_PLACES: Final = frozenset({"attention", "feed_forward", "expert", "other", "head"})

#: What layers were called that are parameters now.
_MIXTRAL: Final = MappingProxyType(
    {"gate": "gate.weight", "w1": "gate_up_proj", "w3": "gate_up_proj", "w2": "down_proj"}
)
_QWEN2_MOE: Final = MappingProxyType(
    {
        "gate": "gate.weight",
        "gate_proj": "gate_up_proj",
        "up_proj": "gate_up_proj",
        "down_proj": "down_proj",
    }
)
#: By the beginning of the class's name. Qwen2-MoE itself is not among those that peft converts.
_CONVERTED: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "Mixtral": _MIXTRAL, "MiniMax": _MIXTRAL, "Qwen3Moe": _QWEN2_MOE, "Qwen3Next": _QWEN2_MOE,
        "DeepseekV2": _QWEN2_MOE, "DeepseekV3": _QWEN2_MOE, "Glm4Moe": _QWEN2_MOE, "Olmoe": _QWEN2_MOE,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Target:
    """What one tensor is adapted by."""

    written: frozenset[str]
    """As the adapter's targets say it."""
    rank: int


@dataclass(frozen=True, slots=True)
class Targets:
    """An adapter's targets, for one model."""

    rank: int
    vocab: int
    modules: tuple[str, ...]
    """Ends of the names of modules."""
    parameters: Mapping[str, Target]
    """Ends of the names of parameters that are no linear layers."""
    takes_all: bool
    old_names: frozenset[str]
    """Of linear layers that ``all-linear`` leaves out."""

    def of(self, tensor: ParameterTensor) -> Target | None:
        """By what ``tensor`` is adapted, if it is."""
        for end, target in self.parameters.items():
            if _ends(tensor.name, end):
                return target
        if not _can_be_adapted(tensor):
            return None
        module = module_of(tensor)
        for end in self.modules:
            if _ends(module, end):
                return Target(frozenset({end}), self.rank)
        is_left_out = module.rsplit(".", 1)[-1] in self.old_names or is_output(tensor, self.vocab)
        if self.takes_all and is_linear(tensor) and not is_left_out:
            return Target(frozenset({ALL_LINEAR}), self.rank)
        return None


def targets_of(model: Model, adapter: Adapter) -> Targets:
    """What ``adapter.targets`` mean for ``model``. Raises ``UsageMistake`` for half of what is one now."""
    names = next((old for start, old in _CONVERTED.items() if _is_of(model, start)), {})
    takes_all = ALL_LINEAR in adapter.targets
    written = {target: _old_name(target, names) for target in adapter.targets if target != ALL_LINEAR}
    present = set(names) if takes_all else set(written.values())
    parameters = {}
    for new in dict.fromkeys(names.values()):
        parts = [old for old in names if names[old] == new]
        missing = [old for old in parts if old not in present]
        if missing and len(missing) < len(parts):
            raise UsageMistake(
                f"{model.name}: {' and '.join(parts)} are one tensor, {new}; add {', '.join(missing)}"
            )
        if not missing:
            said = {target for target, old in written.items() if old in parts}
            parameters[new] = Target(frozenset(said or {ALL_LINEAR}), adapter.rank * len(parts))
    modules = tuple(target for target, old in written.items() if old is None)
    return Targets(adapter.rank, model.vocab, modules, parameters, takes_all, frozenset(names))


def module_of(tensor: ParameterTensor) -> str:
    """The name of the layer that has ``tensor``."""
    return tensor.name.removesuffix(".weight").removesuffix(".bias")


def is_linear(tensor: ParameterTensor) -> bool:
    """Whether it is the weight of an ``nn.Linear`` (or transformers' ``Conv1D``).

    Transformers' routers are parameters; Qwen2-MoE's gate of its shared expert, one output, is a layer.
    """
    is_matrix = len(tensor.shape) == 2 and tensor.name.endswith(".weight")
    is_gate = tensor.place == "router" and tensor.shape[0] == 1
    return is_matrix and (tensor.place in _LINEAR_PLACES or is_gate)


def is_output(tensor: ParameterTensor, vocab: int) -> bool:
    """Whether it is the output embedding: what gives the vocabulary's logits."""
    return tensor.place == "head" and tensor.shape[0] == vocab


def _can_be_adapted(tensor: ParameterTensor) -> bool:
    if len(tensor.shape) == 3:
        return tensor.place == "expert"
    is_table = tensor.place == "embedding" and len(tensor.shape) == 2
    is_convolution = len(tensor.shape) == 4 and tensor.name.endswith(".weight")
    return is_linear(tensor) or is_table or is_convolution


def _is_of(model: Model, start: str) -> bool:
    return re.match(f"{start}(?![a-z0-9])", model.architecture) is not None


def _old_name(target: str, names: Mapping[str, str]) -> str | None:
    return next((old for old in names if _ends(target, old)), None)


def _ends(name: str, end: str) -> bool:
    return name == end or name.endswith(f".{end}")
