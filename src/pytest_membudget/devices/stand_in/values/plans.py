"""What is to be done around each of PyTorch's CUDA kernels, by its operator."""

from functools import cache
from typing import Any

import torch

from ...real.kernels import tensor_positions
from .drawn_shares import is_of_draws
from .options import has_options
from .out_lessons import lesson_with_out
from .reads import COUNTS, READS
from .routing import is_choice
from .sized_by_data import sized_by_data

aten = torch.ops.aten

#: Composite operators that are seen as one: without a kernel for CUDA. Attention's softmax asks which rows
#: are masked throughout, and decides nothing by it.
COMPOSITE = (aten.copy_.default, aten.allclose.default, aten._safe_softmax.default)


class Plan:
    """What values have to do with an operator, found out once."""

    __slots__ = (
        "chooses", "counts", "has_options", "is_of_draws", "lesson", "needed", "operator", "reads",
        "sized", "tensor_positions",
    )  # fmt: skip

    def __init__(self, operator: Any) -> None:
        #: the operator, or its form without ``out``
        self.operator, self.lesson = lesson_with_out(operator)
        self.tensor_positions = tensor_positions(operator)
        self.reads = operator in READS
        self.sized = sized_by_data(self.operator)
        self.chooses = is_choice(self.operator)
        self.has_options = has_options(self.operator)
        self.counts = self.operator in COUNTS
        self.is_of_draws = is_of_draws(self.operator)
        #: the arguments with a position of which something must be known, or nothing is to be noted
        self.needed = self._needed(operator)

    def _needed(self, operator: Any) -> slice | None:
        if self.has_options or not getattr(self.lesson, "needs_known", False):
            return None
        if not getattr(self.lesson, "needs_first", False):
            return slice(None)
        types = [str(argument.type) for argument in operator._schema.arguments if not argument.kwarg_only]
        first = next((index for index, name in enumerate(types) if "Tensor" in name), None)
        return None if first is None else slice(first, first + 1)


#: The plan of an operator, which every process with the device makes.
plan_of = cache(Plan)
