"""What follows when a test has formed its process group: on a card its device has begun before."""

import functools
from collections.abc import Callable
from typing import Any

import torch.distributed as dist


def put(name: str, function: Any) -> None:
    """Make ``function`` what ``torch.distributed`` has under ``name``."""
    from torch.distributed import distributed_c10d as c10d  # not in every torch

    for module in (dist, c10d):
        if hasattr(module, name):
            setattr(module, name, function)


def after_each_group(formed: Callable[[], None]) -> None:
    """Call ``formed`` whenever this process has formed its process group, from here on."""
    if not dist.is_available():
        return
    original: Any = dist.init_process_group

    @functools.wraps(original)
    def form(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        formed()

    put(original.__name__, form)
