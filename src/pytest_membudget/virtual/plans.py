"""What is to be done for an operator of each kind, found out once."""

from __future__ import annotations

from typing import Any

import torch

from .attention_temporaries import ATTENTION_KERNELS
from .cuda_kernels import has_cuda_kernel
from .detours import DETOURED
from .kernel_temporaries import KERNELS
from .known_shapes import shape_rule_of
from .learning import lesson_of
from .reads import READS
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
_HANDS_OVER_GRADIENT = frozenset({aten.detach.default, aten.clone.default})


class Plan:
    """What is to be done for an operator, found out at its first call."""

    __slots__ = (
        "attention",
        "composite",
        "depends_on_data",
        "detoured",
        "hands_over",
        "is_view",
        "kernel",
        "lesson",
        "name",
        "product",
        "reads",
        "resizes",
        "shape_rule",
    )

    def __init__(self, operator: Any) -> None:
        self.name = operator.name() if hasattr(operator, "name") else str(operator)
        overload = isinstance(operator, torch._ops.OpOverload)
        self.is_view = overload and operator.is_view
        self.resizes = operator in _RESIZING
        self.attention = operator in ATTENTION_KERNELS
        self.kernel = operator in KERNELS
        self.detoured = operator in DETOURED
        self.hands_over = operator in _HANDS_OVER_GRADIENT
        self.product = operator in PRODUCTS
        self.reads = operator in READS
        self.lesson = lesson_of(operator)
        self.shape_rule = shape_rule_of(operator)
        self.depends_on_data = self.reads or self.shape_rule is not None or operator is INDEX
        self.composite = (
            overload
            and torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "CompositeImplicitAutograd")
            and not has_cuda_kernel(operator.name())
        )
