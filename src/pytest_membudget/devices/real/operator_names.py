"""Operators' names as the dispatcher has them: C++ stacks write ``aten::empty.memory_format`` otherwise."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch


def operator_name(called: str) -> str:
    """The name of ``called``, as ``histories.places.operator_of`` gives it; itself where it is unknown."""
    return _names().get(called, called)


@cache
def _names() -> dict[str, str]:
    """Each C++ name of an operator (``at::_ops::empty_memory_format``) is its own with underscores for dots.

    ``torch._C._dispatch_get_all_op_names`` is private; see tests/devices/real/test_operator_names.py.
    """
    own: Any = torch._C
    get = getattr(own, "_dispatch_get_all_op_names", list)
    return {name.replace(".", "_"): name for name in get() if "." in name}
