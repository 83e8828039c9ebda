"""torch.optim.Muon: momentum, made orthogonal by five Newton-Schulz iterations in bf16.

Read in torch/optim/_muon.py of torch 2.13.0: matrices only, one after the other; its documentation gives
embeddings, heads, biases and norms to AdamW.
"""

from __future__ import annotations

from typing import Final

from ..job import Optimizer
from ..local_tensors import LocalTensor
from .contract import Actions, Family, Free, Implementation, Make, Rename, as_large, keeps

#: What AdamW has, matrix or not.
_OUTSIDE_LAYERS: Final = frozenset({"embedding", "position", "head"})
_BF16_BYTES: Final = 2


def is_muons(tensor: LocalTensor) -> bool:
    """Whether Muon updates it, and not the AdamW for the rest."""
    return len(tensor.shape) == 2 and tensor.place not in _OUTSIDE_LAYERS


def _gram(tensor: LocalTensor) -> int:
    return min(tensor.shape) ** 2 * _BF16_BYTES


def _in_bf16(tensor: LocalTensor) -> int:
    return tensor.elements * _BF16_BYTES


def _step(tensor: LocalTensor, optimizer: Optimizer, how: Implementation) -> Actions:
    """``update`` is held while the iterations go on; three of them show the highest of five."""
    nesterov = optimizer.nesterov is not False
    begin: Actions = (Make("update", as_large),) if nesterov else (Free("update"),)
    copies = tensor.number_type != "bf16"  # else the iterations begin in ``update`` itself
    first: Actions = (Make("ortho_grad", _in_bf16),) if copies else ()
    one = Make("gram_matrix", _gram), Make("gram_update", _gram), Make("ortho_grad", _in_bf16)
    end = Free("gram_matrix"), Free("gram_update"), Rename("ortho_grad", "update")
    return *begin, *first, *one, *one, *one, *end


FAMILY: Final = Family(
    "torch/optim/_muon.py, torch 2.13.0",
    keeps("momentum_buffer"),
    _step,
    implementations=("loop",),
)
