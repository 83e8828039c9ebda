"""Collectives of Python objects: of ranks that have run what they have, of others what this one has.

torch sends them as tensors of bytes, whose sizes and contents it reads: nobody would know them.
"""

import io
import pickle
import sys
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist

from ...real.group_begins import put
from ..values.refusals import refusal
from .broadcasts import Broadcasts


def install_objects(broadcasts: Broadcasts) -> None:
    """Let objects be gathered, broadcast and scattered."""
    sent = _Sent(broadcasts)
    for function in (
        sent.all_gather_object, sent.gather_object, sent.broadcast_object_list, sent.scatter_object_list,
        sent.send_object_list, sent.recv_object_list,
    ):  # fmt: skip
        put(function.__name__, function)


class _Sent:
    """Objects that ranks send to each other. Those of torch itself decide nothing on cards."""

    def __init__(self, broadcasts: Broadcasts) -> None:
        self._broadcasts = broadcasts

    def all_gather_object(self, object_list: list[Any], obj: Any, group: Any = None) -> None:
        """What each rank has, where that is known; else what this rank has."""
        if _is_users(sys._getframe(1)):
            object_list[:] = self._broadcasts.gathered(_group(group), obj)
        else:
            object_list[:] = [obj] * dist.get_world_size(group)

    def gather_object(
        self,
        obj: Any,
        object_gather_list: list[Any] | None = None,
        dst: Any = None,
        group: Any = None,
        **_: Any,
    ) -> None:
        """The same for the rank that has the list; the others give theirs."""
        if _is_users(sys._getframe(1)):
            receives = object_gather_list is not None
            found = self._broadcasts.gathered(_group(group), obj, receives=receives)
        else:
            found = [obj] * dist.get_world_size(group)
        if object_gather_list is not None:
            object_gather_list[:] = found

    def broadcast_object_list(
        self,
        object_list: list[Any],
        src: int | None = None,
        group: Any = None,
        device: Any = None,
        group_src: int | None = None,
    ) -> None:
        """What rank 0 has, where that is known; else what this rank has."""
        root, is_users = _root(src, group, group_src), _is_users(sys._getframe(1))
        if is_users:
            self._broadcasts.objects(_group(group), root, object_list)
            return
        own = [packed(one) or one for one in object_list]
        found = [*own]
        self._broadcasts.objects(_group(group), root, found, decide=False)
        for place, (mine, one) in enumerate(zip(own, found, strict=True)):
            if one is not mine:
                object_list[place] = unpacked(one)

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
        decide = _is_users(sys._getframe(1))
        self._broadcasts.objects(_group(group), _root(src, group, group_src), sent, decide=decide)
        own = sent[dist.get_rank(group)]
        if given is None and own is None:
            raise refusal(_OTHERS.format("scatter_object_list"))
        scatter_object_output_list[0] = own

    def send_object_list(
        self,
        object_list: list[Any],
        dst: int | None = None,
        group: Any = None,
        device: Any = None,
        group_dst: int | None = None,
        use_batch: bool = False,
    ) -> None:
        """Kept for the rank that it is for."""
        is_users = _is_users(sys._getframe(1))
        objects = object_list if is_users else [packed(one) or one for one in object_list]
        self._broadcasts.send(_group(group), _root(dst, group, group_dst), objects, identical=not is_users)

    def recv_object_list(
        self,
        object_list: list[Any],
        src: int | None = None,
        group: Any = None,
        device: Any = None,
        group_src: int | None = None,
        use_batch: bool = False,
    ) -> int:
        """What that rank sends. Pipelines of torch send shapes, which stages of other groups share."""
        is_users, root = _is_users(sys._getframe(1)), _root(src, group, group_src)
        found = self._broadcasts.received(_group(group), root, identical=not is_users)
        if not found:
            raise refusal(_OTHERS.format("recv_object_list"))
        object_list[:] = found if is_users else map(unpacked, found)
        return dist.get_global_rank(_group(group), root)


def _group(group: Any) -> Any:
    return group if group is not None else dist.group.WORLD


def _is_users(frame: FrameType) -> bool:
    """Whether code outside of torch has called: what that does may depend on the objects."""
    return not str(frame.f_globals.get("__name__", "")).startswith("torch.")


def _root(src: int | None, group: Any, group_src: int | None) -> int:
    """The rank in ``group`` that sends, rank 0 if none is named."""
    if group_src is not None or src is None or group is None:
        return group_src or src or 0
    return dist.get_group_rank(group, src)


_OTHERS = (
    "torch.distributed.{} gives what another rank has, which is not there while a budget is estimated; "
    "make the objects on every rank"
)


def packed(value: Any, *, leaves_data: bool = False) -> bytes | None:
    """An object of torch itself (shapes, names, settings) for ``unpacked``.

    None where a tensor has data, unless that is left, or it cannot be pickled.
    """
    file = io.BytesIO()
    packer = _Packer(file)
    packer.leaves_data = leaves_data
    try:
        packer.dump(value)
    except Exception:  # whatever an object raises that is not made to be pickled
        return None
    return file.getvalue()


def unpacked(data: bytes, device: Any = "cpu") -> Any:
    """What was ``packed``; its tensors, as counts of steps, are zeros, on ``device``."""
    unpacker = _Unpacker(io.BytesIO(data))
    unpacker.device = device
    return unpacker.load()


class _Packer(pickle.Pickler):
    leaves_data = False

    def persistent_id(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return None
        if value.numel() > 1 and not self.leaves_data and not value.is_meta:
            raise pickle.PicklingError("a tensor with data")
        return tuple(value.shape), value.dtype, value.is_meta


class _Unpacker(pickle.Unpickler):
    device: Any = "cpu"

    def persistent_load(self, saved: Any) -> torch.Tensor:
        shape, dtype, is_meta = saved  # torch 2.11 sends shapes as tensors without data
        return torch.zeros(shape, dtype=dtype, device="meta" if is_meta else self.device)
