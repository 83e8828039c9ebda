"""Operators that take functions: those that eager code runs by ordinary operators are run so."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch

from .refusals import refusal

#: What CUDA runs by ordinary operators where nobody compiles it: ``flex_attention`` and its backward
#: (``sdpa_dense`` in torch/_higher_order_ops/flex_attention.py, 2.13), and products of integers with sums of
#: another type (``out_dtype_dense`` in out_dtype.py there).
_BY_ORDINARY_OPERATORS = frozenset({"flex_attention", "flex_attention_backward", "out_dtype"})


def dense_kernel(operator: Any) -> Callable[..., Any] | None:
    """The Python function that an eager run calls for a higher-order ``operator``; None for ordinary ones.

    Raises ``NotAvailable`` for those that are not run here.
    """
    if not isinstance(operator, torch._ops.HigherOrderOperator):
        return None
    kernel = operator.py_kernels.get(torch._C.DispatchKey.CompositeExplicitAutograd)
    if operator.name() in _BY_ORDINARY_OPERATORS and kernel is not None:
        return kernel
    raise refusal(
        f"torch.ops.higher_order.{operator.name()} is not part of the virtual CUDA device that "
        "budgets are estimated on; write ordinary operators (if, for)"
    )


def install_examples(mode: Any) -> None:
    """Leave out the examples that flex attention traces a modified score with: on a card they are fake too.

    ``mode`` is the virtual device's, which ``create_fw_bw_graph`` finds in place of the one it would make.
    """
    flex: Any = importlib.import_module("torch._higher_order_ops.flex_attention")
    original = flex.create_fw_bw_graph

    @functools.wraps(original)
    def create(*args: Any, **kwargs: Any) -> Any:
        tracker, mode.tracker = mode.tracker, None
        try:
            return original(*args, **kwargs)
        finally:
            mode.tracker = tracker

    flex.create_fw_bw_graph = create
