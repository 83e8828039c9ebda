"""Collectives of Python objects: the other ranks have the same as this one, and the others what rank 0 has.

torch sends them as tensors of bytes, whose sizes and contents it reads: nobody would know them.
"""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from ..values.refusals import refusal
from .broadcasts import Broadcasts


def install_objects(broadcasts: Broadcasts) -> None:
    """Let objects be gathered, broadcast and scattered."""
    sent = _Sent(broadcasts)
    for function in (
        _all_gather_object, _gather_object, sent.broadcast_object_list, sent.scatter_object_list,
        _send_object_list, _recv_object_list,
    ):  # fmt: skip
        put(function.__name__.removeprefix("_"), function)


def put(name: str, function: Any) -> None:
    """Make ``function`` what ``torch.distributed`` has under ``name``."""
    for module in (dist, c10d):
        if hasattr(module, name):
            setattr(module, name, function)


def _all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    object_list[:] = [obj] * dist.get_world_size(group)


def _gather_object(obj: Any, object_gather_list: list[Any] | None = None, *_: Any, **__: Any) -> None:
    if object_gather_list is not None:
        object_gather_list[:] = [obj] * len(object_gather_list)


class _Sent:
    """Objects that one rank sends to all others."""

    def __init__(self, broadcasts: Broadcasts) -> None:
        self._broadcasts = broadcasts

    def broadcast_object_list(
        self,
        object_list: list[Any],
        src: int | None = None,
        group: Any = None,
        device: Any = None,
        group_src: int | None = None,
    ) -> None:
        """What rank 0 has, where that is known; else what this rank has."""
        self._broadcasts.objects(_name(group), _root(src, group, group_src), object_list)

    def scatter_object_list(
        self,
        scatter_object_output_list: list[Any],
        scatter_object_input_list: list[Any] | None = None,
        src: int | None = None,
        group: Any = None,
        group_src: int | None = None,
    ) -> None:
        """The list of rank 0, where that is known, or this rank's own."""
        given = scatter_object_input_list
        sent = [None] * dist.get_world_size(group) if given is None else [*given]
        self._broadcasts.objects(_name(group), _root(src, group, group_src), sent)
        own = sent[dist.get_rank(group)]
        if given is None and own is None:
            raise refusal(_OTHERS.format("scatter_object_list"))
        scatter_object_output_list[0] = own


def _name(group: Any) -> str:
    whole: Any = dist.group.WORLD
    return str((group if group is not None else whole).group_name)


def _root(src: int | None, group: Any, group_src: int | None) -> int:
    """The rank in ``group`` that sends, rank 0 if none is named."""
    if group_src is not None or src is None or group is None:
        return group_src or src or 0
    return dist.get_group_rank(group, src)


def _send_object_list(*_: Any, **__: Any) -> None:
    """Nobody is there to receive it."""


def _recv_object_list(*_: Any, **__: Any) -> int:
    raise refusal(_OTHERS.format("recv_object_list"))


_OTHERS = (
    "torch.distributed.{} gives what another rank has, which is not there while a budget is estimated; "
    "make the objects on every rank"
)
