"""Lets a test call ``init_process_group`` itself, as under torchrun, though its rank has a group already.

The group of the rank also serves the host (``cpu:gloo,cuda:nccl``), as FSDP2 with its optimizer on the host
needs. ``get_backend`` returns the backend for cards, and after a test's own call the backend that the test
asked for, as if that call had made the group.
"""

from __future__ import annotations

from typing import Any

from ...devices.fake.cluster.shown_backend import UNNAMED, show_backend

#: (module, attribute path, what it is for): see ``virtual/private.py``.
PARTS: tuple[tuple[str, str, str], ...] = (
    ("torch.distributed.distributed_c10d", "_world.pg_map", "the backend that a process group is shown with"),
    ("torch.distributed.distributed_c10d", "BackendConfig", "the devices that a backend serves"),
)


def accept_own_group() -> None:
    """Make the test's first ``init_process_group`` return the existing group, if the arguments match it.

    The virtual device does the same, so that one body runs on both. A second call raises torch's error.
    """
    import torch.distributed as dist
    from torch.distributed import distributed_c10d as c10d

    from ...devices.fake.private import check_parts

    check_parts(PARTS)
    served = _served(dist.get_backend())
    shown = served["cuda"]
    show_backend(dist.group.WORLD, shown)
    modules: tuple[Any, Any] = (dist, c10d)
    original = c10d.init_process_group

    def find_group(backend: str | None = None, *args: Any, **kwargs: Any) -> None:
        for module in modules:
            module.init_process_group = original
        if not dist.is_initialized():
            c10d.init_process_group(backend, *args, **kwargs)
            return
        if backend is not None and not _served(backend).items() <= served.items():
            raise _other(backend, shown, "backend")
        for name, own in (("world_size", dist.get_world_size()), ("rank", dist.get_rank())):
            if kwargs.get(name, -1) not in (-1, own):
                raise _other(kwargs[name], own, name)
        # PyTorch returns only the backend of the given device
        unnamed = UNNAMED if kwargs.get("device_id") is None else shown
        show_backend(dist.group.WORLD, unnamed if backend is None else backend.lower())

    for module in modules:
        module.init_process_group = find_group


def _served(backend: str) -> dict[str, str]:
    """The backends of ``backend`` by device type: ``{"cuda": "nccl"}`` for nccl."""
    from torch.distributed import distributed_c10d as c10d

    asked: Any = c10d.BackendConfig(c10d.Backend(backend))
    served = asked.get_device_backend_map()
    return {device: str(served[device]) for device in ("cpu", "cuda") if device in served}


def _other(asked: Any, own: Any, name: str) -> ValueError:
    return ValueError(
        f"init_process_group({name}={asked!r}): the test runs in a process group with {name}={own!r}, "
        f"which is there before it begins; leave the call out, or write {own!r}"
    )
