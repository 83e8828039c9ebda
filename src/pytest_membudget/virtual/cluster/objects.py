"""Collectives of Python objects: the other ranks have the same as this one.

torch sends them as tensors of bytes, whose sizes and contents it reads: on the virtual device they would be
made up.
"""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from ..refusals import refusal


def install_objects() -> None:
    """Let objects be gathered, broadcast and scattered."""
    for function in (
        _all_gather_object, _gather_object, _broadcast_object_list, _scatter_object_list, _send_object_list,
        _recv_object_list,
    ):  # fmt: skip
        name = function.__name__.removeprefix("_")
        for module in (dist, c10d):
            if hasattr(module, name):
                setattr(module, name, function)


def _all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    object_list[:] = [obj] * dist.get_world_size(group)


def _gather_object(obj: Any, object_gather_list: list[Any] | None = None, *_: Any, **__: Any) -> None:
    if object_gather_list is not None:
        object_gather_list[:] = [obj] * len(object_gather_list)


def _broadcast_object_list(object_list: list[Any], *_: Any, **__: Any) -> None:
    """What the source has is what this rank has; on another rank than the source that may be nothing."""


def _scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    *_: Any,
    **__: Any,
) -> None:
    if scatter_object_input_list is None:
        raise refusal(_OTHERS.format("scatter_object_list"))
    scatter_object_output_list[0] = scatter_object_input_list[dist.get_rank()]


def _send_object_list(*_: Any, **__: Any) -> None:
    """Nobody is there to receive it."""


def _recv_object_list(*_: Any, **__: Any) -> int:
    raise refusal(_OTHERS.format("recv_object_list"))


_OTHERS = (
    "torch.distributed.{} gives what another rank has, which is not there on the virtual device that budgets "
    "are estimated on; make the objects on every rank"
)
