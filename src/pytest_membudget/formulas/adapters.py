"""Low-rank adapters on a frozen base, and its quantised storage: from a model's tensors to those of peft.

Read in peft 0.21.2: peft/tuners/lora/layer.py (``Linear``, ``Embedding``, ``_ConvNd``, ``ParamWrapper``) and
dora.py for names and shapes (a stacked parameter's adapters have its name here, ``ParamWrapper``'s have
none), peft/tuners/tuners_utils.py for the casts to fp32; and in transformers 5.23.0:
integrations/bitsandbytes.py and quantizers/base.py for which layers are quantised (``nn.Linear`` and
``Conv1D``, neither the output embedding nor the module of the last parameter).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod

from ..errors import UsageMistake
from .adapter_targets import ALL_LINEAR, Target, is_linear, is_output, module_of, targets_of
from .job import Adapter
from .model import Model
from .parameter_tensors import Inventory, ParameterTensor
from .tensor_names import names_of


@dataclass(frozen=True, slots=True)
class _Sides:
    """The shapes of one adapter's two matrices, and which of their dimensions tensor parallelism splits."""

    down: tuple[int, ...]
    up: tuple[int, ...]
    outputs: int
    down_split: int | None = None
    up_split: int | None = None


def adapted(inventory: Inventory, model: Model, adapter: Adapter) -> Inventory:
    """``inventory`` frozen, stored as ``adapter.base`` says, with the adapters next to their base tensors.

    Raises ``UsageMistake`` where a target names nothing that can be adapted.
    """
    base = _Base(model, adapter, _last_module(inventory))
    targets = targets_of(model, adapter)
    unused = set(adapter.targets) - {ALL_LINEAR}

    def change(tensors: tuple[ParameterTensor, ...]) -> tuple[ParameterTensor, ...]:
        found: list[ParameterTensor] = []
        for tensor in tensors:
            found.append(base.frozen(tensor))
            target = targets.of(tensor)
            if target is not None:
                unused.difference_update(target.written)
                found += base.adapters(tensor, target)
        return tuple(found)

    made = _over(inventory, change)
    if unused:
        raise UsageMistake(_unknown_targets(sorted(unused), inventory, model))
    return made


def _over(
    inventory: Inventory, change: Callable[[tuple[ParameterTensor, ...]], tuple[ParameterTensor, ...]]
) -> Inventory:
    return Inventory(
        change(inventory.before),
        tuple(replace(layer, tensors=change(layer.tensors)) for layer in inventory.layers),
        change(inventory.after),
    )


def _last_module(inventory: Inventory) -> str:
    """The module of the last parameter, whatever it is: transformers does not quantise it."""
    for tensors in (inventory.after, *(layer.tensors for layer in reversed(inventory.layers))):
        if tensors:
            return module_of(tensors[-1])
    return ""


@dataclass(frozen=True, slots=True)
class _Base:
    """What becomes of the base's tensors."""

    model: Model
    adapter: Adapter
    last_module: str

    def frozen(self, tensor: ParameterTensor) -> ParameterTensor:
        """Without a gradient; quantised where the storage is for such."""
        adapter = self.adapter
        tensor = replace(tensor, is_trained=False)
        is_kept = is_output(tensor, self.model.vocab) or module_of(tensor) == self.last_module
        if adapter.base is not None and is_linear(tensor) and not is_kept:
            return replace(self._output_first(tensor), quantised=adapter.base)
        return replace(tensor, number_type="fp32") if adapter.casts_rest else tensor

    def _output_first(self, tensor: ParameterTensor) -> ParameterTensor:
        """bitsandbytes' linear layers are [out, in], in ``Conv1D``'s place too."""
        if not self._is_input_first(tensor):
            return tensor
        split_dim = None if tensor.split_dim is None else 1 - tensor.split_dim
        return replace(tensor, shape=tensor.shape[::-1], split_dim=split_dim)

    def _is_input_first(self, tensor: ParameterTensor) -> bool:
        names = names_of(self.model.architecture)
        if len(tensor.shape) == 3:
            return names.layer.experts.is_input_first
        return names.is_input_first and tensor.place != "head"

    def adapters(self, tensor: ParameterTensor, target: Target) -> Iterator[ParameterTensor]:
        """The tensors that peft adds to ``tensor``."""
        self._check(tensor)
        sides = self._sides(tensor, target.rank)
        kind = "lora_embedding" if tensor.place == "embedding" else "lora"
        end = "default" if tensor.place == "embedding" else "default.weight"
        one = replace(tensor, is_trained=True, number_type=self.adapter.number_type)
        module = module_of(tensor)
        yield replace(one, name=f"{module}.{kind}_A.{end}", shape=sides.down, split_dim=sides.down_split)
        yield replace(one, name=f"{module}.{kind}_B.{end}", shape=sides.up, split_dim=sides.up_split)
        if self.adapter.is_dora:
            name = f"{module}.lora_magnitude_vector.default.weight"
            yield replace(one, name=name, shape=(sides.outputs,), split_dim=sides.up_split)

    def _check(self, tensor: ParameterTensor) -> None:
        """Parameters that are no layers take plain adapters alone (``ParamWrapper``)."""
        if len(tensor.shape) != 3 and (tensor.place != "router" or is_linear(tensor)):
            return
        if self.adapter.is_dora or self.adapter.dropout:
            what = "DoRA" if self.adapter.is_dora else "dropout"
            raise UsageMistake(
                f"peft cannot adapt a parameter such as {tensor.name} with {what}: "
                "drop it, or leave experts and routers out of the targets"
            )

    def _sides(self, tensor: ParameterTensor, rank: int) -> _Sides:
        shape = tensor.shape
        if len(shape) == 4:
            return _Sides((rank, *shape[1:]), (shape[0], rank, 1, 1), shape[0])
        if tensor.place == "embedding":  # [vocabulary, width]
            return _Sides((rank, shape[0]), (shape[1], rank), shape[1])
        experts = prod(shape[:-2])
        input_dim = len(shape) - (2 if self._is_input_first(tensor) else 1)
        inputs, outputs = shape[input_dim], shape[2 * len(shape) - 3 - input_dim]
        splits_input = tensor.split_dim == input_dim
        return _Sides(
            (rank * experts, inputs),
            (outputs, rank * experts),
            outputs,
            1 if splits_input else None,
            0 if tensor.split_dim is not None and not splits_input else None,
        )


def _unknown_targets(targets: list[str], inventory: Inventory, model: Model) -> str:
    tensors = [*inventory.before, *inventory.after]
    tensors += [tensor for layer in inventory.layers for tensor in layer.tensors]
    known = {module_of(tensor).rsplit(".", 1)[-1] for tensor in tensors if is_linear(tensor)}
    written = ", ".join(map(repr, targets))
    return (
        f"{model.name} has no layer that ends in {written}: write some of "
        f"{', '.join(sorted(known))}, or {ALL_LINEAR!r}"
    )
