"""What is to be done for an operator of each kind, found out once."""

from __future__ import annotations

from typing import Any

import torch

from ..errors import NotAvailable
from .attention_temporaries import ATTENTION_KERNELS
from .cuda_kernels import has_cuda_kernel
from .detours import DETOURED
from .kept_results import KEPT
from .kernel_temporaries import KERNELS
from .known_shapes import shape_rule_of
from .learning import lesson_of
from .reads import READS
from .unmodelled import unmodelled_of
from .unsupported import PRODUCTS

aten = torch.ops.aten

#: Operators that give an existing tensor other memory.
_RESIZING = frozenset(
    {aten.resize_.default, aten.resize_as_.default, aten.set_.source_Tensor, aten.set_.source_Storage,
     aten.set_.source_Storage_storage_offset, torch.ops.inductor.resize_storage_bytes_.default}
    if hasattr(torch.ops.inductor, "resize_storage_bytes_")
    else {aten.resize_.default, aten.resize_as_.default, aten.set_.source_Tensor}
)  # fmt: skip
INDEX = aten.index.Tensor
#: Namespaces of operators that communicate.
_COLLECTIVE = ("c10d::", "_c10d_functional::", "_dtensor::")
#: Composite operators that are given a kernel for cuda here; their mode calls it where they arrive whole.
_REPLACED = frozenset({aten.scaled_dot_product_attention.default, aten.batch_norm.default})
_HANDS_OVER_GRADIENT = frozenset({aten.detach.default, aten.clone.default})


class Plan:
    """What is to be done for an operator, found out at its first call."""

    __slots__ = (
        "attention",
        "collective",
        "composite",
        "depends_on_data",
        "detoured",
        "hands_over",
        "is_view",
        "keeps_losses",
        "kernel",
        "lesson",
        "name",
        "product",
        "reads",
        "resizes",
        "shape_rule",
        "unmodelled",
    )

    def __init__(self, operator: Any) -> None:
        self.name = operator.name() if hasattr(operator, "name") else str(operator)
        if isinstance(operator, torch._ops.HigherOrderOperator):
            raise NotAvailable(
                f"torch.ops.higher_order.{operator.name()} is not part of the virtual CUDA device that "
                "budgets are estimated on; write ordinary operators (scaled_dot_product_attention, if, for)"
            )
        overload = isinstance(operator, torch._ops.OpOverload)
        self.is_view = overload and operator.is_view
        self.resizes = operator in _RESIZING
        self.collective = self.name.startswith(_COLLECTIVE)
        self.attention = operator in ATTENTION_KERNELS
        self.kernel = operator in KERNELS
        self.keeps_losses = operator in KEPT
        self.detoured = operator in DETOURED
        self.hands_over = operator in _HANDS_OVER_GRADIENT
        self.product = operator in PRODUCTS
        self.reads = operator in READS
        self.unmodelled = unmodelled_of(operator)
        self.lesson = lesson_of(operator)
        self.shape_rule = shape_rule_of(operator)
        self.depends_on_data = self.reads or self.shape_rule is not None or operator is INDEX
        self.composite = (
            overload
            and torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "CompositeImplicitAutograd")
            and (operator in _REPLACED or not has_cuda_kernel(operator.name()))
        )
