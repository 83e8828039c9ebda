"""What is to be done for an operator of each kind, found out once."""

from __future__ import annotations

from typing import Any

import torch

from .attention_temporaries import ATTENTION_KERNELS
from .cuda_kernels import has_cuda_kernel
from .detours import DETOURED
from .higher_order import dense_kernel
from .kept_results import KEPT
from .kernel_temporaries import EXTENSION_RULES, KERNELS
from .known_shapes import shape_rule_of
from .learning import lesson_of
from .one_hot import ONE_HOT
from .python_kernels import has_python_kernel
from .reads import COUNTS, READS
from .routing import is_choice
from .strides_of_one import SHORT_CUTS, VIEWS
from .unmodelled import is_own, unmodelled_of
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
_REPLACED = frozenset({aten.scaled_dot_product_attention.default, aten.batch_norm.default, ONE_HOT})
_HANDS_OVER_GRADIENT = frozenset({aten.detach.default, aten.clone.default})


class Plan:
    """What is to be done for an operator, found out at its first call."""

    __slots__ = (
        "attention",
        "chooses",
        "collective",
        "composite",
        "counts",
        "dense",
        "depends_on_data",
        "detoured",
        "hands_over",
        "is_view",
        "keeps_losses",
        "kernel",
        "lesson",
        "name",
        "product",
        "python_kernel",
        "reads",
        "reshapes",
        "resizes",
        "shape_rule",
        "short_cut",
        "unmodelled",
        "waits",
    )

    def __init__(self, operator: Any) -> None:
        self.name = operator.name() if hasattr(operator, "name") else str(operator)
        self.dense = dense_kernel(operator)
        overload = isinstance(operator, torch._ops.OpOverload)
        self.is_view = overload and operator.is_view
        self.reshapes = operator in VIEWS
        self.short_cut = operator in SHORT_CUTS
        self.resizes = operator in _RESIZING
        self.collective = self.name.startswith(_COLLECTIVE)
        # what is waited for comes back itself: ``c10d::wait_tensor`` (torch/csrc/distributed/c10d/Work.cpp,
        # pytorch/pytorch); its kernel for fakes makes another tensor
        self.waits = self.name.startswith("_c10d_functional::wait_tensor")
        self.attention = operator in ATTENTION_KERNELS
        self.kernel = operator in KERNELS or self.name in EXTENSION_RULES
        self.keeps_losses = operator in KEPT
        self.detoured = operator in DETOURED
        self.hands_over = operator in _HANDS_OVER_GRADIENT
        self.product = operator in PRODUCTS
        self.reads = operator in READS
        self.unmodelled = unmodelled_of(operator)
        self.lesson = lesson_of(operator)
        self.shape_rule = shape_rule_of(operator)
        self.chooses = is_choice(operator)
        self.counts = operator in COUNTS
        self.depends_on_data = self.reads or self.shape_rule is not None or operator is INDEX
        self.python_kernel = overload and not is_own(operator) and has_python_kernel(operator)
        self.composite = (
            overload
            and torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "CompositeImplicitAutograd")
            and (operator in _REPLACED or not has_cuda_kernel(operator.name()))
        )
