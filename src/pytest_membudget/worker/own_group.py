"""A test that makes its process group itself, as under torchrun, where the launcher's is there already."""

from __future__ import annotations

from typing import Any


def accept_own_group() -> None:
    """Let the test's first ``init_process_group`` find the default group made, if it asks for one like it.

    The virtual device does so too, so that one body runs on both. A second call raises torch's own error.
    """
    import torch.distributed as dist
    from torch.distributed import distributed_c10d as c10d

    made = {module: module.init_process_group for module in (dist, c10d)}

    def find_group(backend: str | None = None, *args: Any, **kwargs: Any) -> None:
        for module, function in made.items():
            _set(module, function)
        if not dist.is_initialized():
            c10d.init_process_group(backend, *args, **kwargs)
            return
        _refuse_other(backend, dist.get_backend(), "backend")
        _refuse_other(kwargs.get("world_size", -1), dist.get_world_size(), "world_size")
        _refuse_other(kwargs.get("rank", -1), dist.get_rank(), "rank")

    for module in made:
        _set(module, find_group)


def _refuse_other(asked: Any, own: Any, name: str) -> None:
    """``asked`` may say nothing, or what is there: ``cuda:nccl`` is nccl for what is measured."""
    if asked in (None, -1, own) or (isinstance(asked, str) and own in asked.lower()):
        return
    raise ValueError(
        f"init_process_group({name}={asked!r}): the test runs in a process group with {name}={own!r}, "
        f"which is there before it begins; leave the call out, or write {own!r}"
    )


def _set(module: Any, function: Any) -> None:
    module.init_process_group = function
