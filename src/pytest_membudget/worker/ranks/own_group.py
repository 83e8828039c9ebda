"""A test that makes its process group itself, as under torchrun, where the launcher's is there already.

The launcher's serves the host too (``cpu:gloo,cuda:nccl``), as FSDP2 with its optimizer on the host needs. It
is shown as of the backend for cards, and once a test asks for a group as of what it asked for: what
``get_backend`` says is what it says where the test's own call makes the group.
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
    """Let the test's first ``init_process_group`` find the default group made, if it asks for one like it.

    The virtual device does so too, so that one body runs on both. A second call raises torch's own error.
    """
    import torch.distributed as dist
    from torch.distributed import distributed_c10d as c10d

    from ...devices.fake.private import check_parts

    check_parts(PARTS)
    served = _served(dist.get_backend())
    shown = served["cuda"]
    show_backend(dist.group.WORLD, shown)
    made = {module: module.init_process_group for module in (dist, c10d)}

    def find_group(backend: str | None = None, *args: Any, **kwargs: Any) -> None:
        for module, function in made.items():
            _set(module, function)
        if not dist.is_initialized():
            c10d.init_process_group(backend, *args, **kwargs)
            return
        if backend is not None and not _served(backend).items() <= served.items():
            raise _other(backend, shown, "backend")
        for name, own in (("world_size", dist.get_world_size()), ("rank", dist.get_rank())):
            if kwargs.get(name, -1) not in (-1, own):
                raise _other(kwargs[name], own, name)
        # PyTorch names the backend of a device that is given, and no other
        unnamed = UNNAMED if kwargs.get("device_id") is None else shown
        show_backend(dist.group.WORLD, unnamed if backend is None else backend.lower())

    for module in made:
        _set(module, find_group)


def _served(backend: str) -> dict[str, str]:
    """The backends that ``backend`` is for the host and for cards: ``{"cuda": "nccl"}`` for nccl."""
    from torch.distributed import distributed_c10d as c10d

    asked: Any = c10d.BackendConfig(c10d.Backend(backend))
    served = asked.get_device_backend_map()
    return {device: str(served[device]) for device in ("cpu", "cuda") if device in served}


def _other(asked: Any, own: Any, name: str) -> ValueError:
    return ValueError(
        f"init_process_group({name}={asked!r}): the test runs in a process group with {name}={own!r}, "
        f"which is there before it begins; leave the call out, or write {own!r}"
    )


def _set(module: Any, function: Any) -> None:
    module.init_process_group = function
