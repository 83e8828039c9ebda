"""What is to be done around each of PyTorch's CUDA kernels, by its operator."""

from __future__ import annotations

from typing import Any

import torch

from ...virtual.known_shapes import shape_rule_of
from ...virtual.reads import COUNTS_TRUES, READS
from ...virtual.routing import is_choice
from .original_kernels import tensor_positions
from .out_lessons import lesson_with_out

aten = torch.ops.aten

#: Operators that allocate and write nothing: what was known of the memory before is forgotten.
EMPTY = frozenset({aten.empty.memory_format, aten.empty_strided.default})

#: Composite operators that are seen as one: without a kernel for CUDA of their own.
COMPOSITE = (aten.copy_.default, aten.allclose.default)


class Plan:
    """What values have to do with an operator, found out once."""

    __slots__ = (
        "chooses", "counts_trues", "lesson", "makes", "needs_first", "needs_known", "operator", "reads",
        "shape_rule", "tensor_positions",
    )  # fmt: skip

    def __init__(self, operator: Any) -> None:
        #: the operator, or the one without ``out`` that it stands for
        self.operator, self.lesson = lesson_with_out(operator)
        #: whether its results are new tensors
        self.makes = not operator._schema.is_mutable
        self.tensor_positions = tensor_positions(operator)
        self.reads = operator in READS
        self.shape_rule = shape_rule_of(operator)
        self.chooses = is_choice(self.operator)
        self.counts_trues = self.operator in COUNTS_TRUES
        #: whether nothing is to be noted where the first tensor among the arguments is unknown
        looks_on = self.chooses or self.counts_trues
        self.needs_first = getattr(self.lesson, "needs_first", False) and not looks_on
        #: whether nothing is to be noted where nothing is known of any argument
        self.needs_known = getattr(self.lesson, "needs_known", False) and not looks_on


def operator_of(name: str) -> Any:
    """The operator called ``name``, as in ``aten::add.Tensor``."""
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")
