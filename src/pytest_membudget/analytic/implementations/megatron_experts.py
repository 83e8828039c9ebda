"""Megatron-core's mixture of experts as operators."""

from __future__ import annotations

from collections.abc import Iterator

from ..model import Experts
from ..tape import Operator
from .megatron_sizes import MegatronSizes


def experts(sizes: MegatronSizes, block: Experts, read: str, made: str) -> Iterator[Operator]:
    """From ``read`` to ``made``."""
    raise NotImplementedError
