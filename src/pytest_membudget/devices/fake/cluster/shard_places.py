"""Where a rank's part of a DTensor begins: DTensor computes it with tensors, which are real here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch._subclasses.fake_tensor import unset_fake_temporarily


def install_shard_places() -> None:
    """Let sizes and offsets of shards be worked out off the virtual device."""
    from torch.distributed.tensor import _utils, placement_types

    own: Any = _utils
    own._get_shard_size_and_offsets = _outside(own._get_shard_size_and_offsets)
    own._get_first_offset = _outside(own._get_first_offset)
    strided: Any = placement_types._StridedShard
    strided._local_shard_size_and_offset = _outside(strided._local_shard_size_and_offset)


def _outside(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def outside(*args: Any, **kwargs: Any) -> Any:
        with unset_fake_temporarily():
            return function(*args, **kwargs)

    return outside
