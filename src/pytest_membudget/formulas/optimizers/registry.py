"""Finds the family of an optimizer by its name and library."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ...errors import UsageMistake
from ..job import Optimizer
from ..local_tensors import LocalTensor
from . import adafactor, adam, lion, muon, plain, quantised_states
from .contract import Family, Implementation, keeps

#: FusedAdam of Transformer Engine or Apex: one step counter a group.
_MOMENTS: Final = keeps("exp_avg", "exp_avg_sq")
_TORCH: Final = {
    **adam.FAMILIES,
    **plain.FAMILIES,
    "adafactor": adafactor.TORCH,
    "muon": muon.FAMILY,
    "lion": lion.FAMILY,
}
_MEGATRON: Final = {
    name: Family(
        f"transformer_engine/pytorch/optimizers/{file}.py, d0067d0", kept, implementations=("fused",)
    )
    for name, file, kept in (
        ("adam", "fused_adam", _MOMENTS),
        ("adamw", "fused_adam", _MOMENTS),
        ("sgd", "fused_sgd", keeps("momentum_buffer")),
    )
}
_LIBRARIES: Final[Mapping[str, Mapping[str, Family]]] = MappingProxyType(
    {
        "torch": _TORCH,
        "transformers": {"adafactor": adafactor.TRANSFORMERS},
        "bitsandbytes": quantised_states.BITSANDBYTES,
        "torchao": quantised_states.TORCHAO,
        "megatron": _MEGATRON,
    }
)


def family_of(optimizer: Optimizer) -> Family:
    """What ``optimizer`` keeps and how it steps. Raises ``UsageMistake`` for what does not exist."""
    families = _LIBRARIES[optimizer.library]
    if optimizer.name not in families:
        raise UsageMistake(
            f"{optimizer.library} has no optimizer {optimizer.name!r} that is known here; "
            f"write one of {', '.join(families)}"
        )
    if optimizer.library == "torch" and optimizer.bits in (4, 8):
        raise UsageMistake(
            f"torch's optimizers keep states in the parameters' type, not in {optimizer.bits} bits; "
            "write library 'bitsandbytes' or 'torchao'"
        )
    return families[optimizer.name]


def implementation_of(optimizer: Optimizer, family: Family) -> Implementation:
    """How the step goes over its parameters. Raises ``UsageMistake`` where the optimizer has no such one."""
    wanted = optimizer.implementation
    if wanted is None or optimizer.name == "muon" or family.implementations == ("fused",):
        return family.implementations[0]  # with Muon it is asked of the AdamW for the rest
    if wanted not in family.implementations:
        raise UsageMistake(
            f"{optimizer.name} has no {wanted} implementation; write {' or '.join(family.implementations)}"
        )
    return wanted


def is_for_adamw(tensor: LocalTensor, optimizer: Optimizer) -> bool:
    """Whether the AdamW next to ``optimizer`` updates ``tensor``: what is not Muon's."""
    return optimizer.name == "muon" and not muon.is_muons(tensor)
