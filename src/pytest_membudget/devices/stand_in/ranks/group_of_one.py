"""A test without ``gpus`` that forms a process group of one: then it is the only rank of a cluster."""

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from ...real.group_begins import put

_NAME: Final = "init_process_group"


def begin_with_group_of_one(begin: Callable[[], None]) -> None:
    """Call ``begin``, which replaces ``init_process_group``, before a group of one for cards is formed.

    Groups of more processes, and those of gloo and MPI, are left to PyTorch.
    """
    if not dist.is_available():
        return
    original: Any = c10d.init_process_group

    @functools.wraps(original)
    def form(*args: Any, **kwargs: Any) -> None:
        asked = inspect.signature(original).bind_partial(*args, **kwargs).arguments
        if dist.is_initialized() or _size(asked) != 1 or not _is_for_cards(asked):
            original(*args, **kwargs)
            return
        put(_NAME, original)
        begin()
        dist.init_process_group(*args, **kwargs)

    put(_NAME, form)


def _size(asked: Mapping[str, Any]) -> int:
    """The number of processes; -1 where neither the call nor the launcher's variable has it."""
    size = asked.get("world_size", -1)
    text = os.environ.get("WORLD_SIZE", "")
    return int(text) if size == -1 and text.isdecimal() else int(size)


def _is_for_cards(asked: Mapping[str, Any]) -> bool:
    backend = asked.get("backend")
    return backend is None or "nccl" in str(backend).lower()
