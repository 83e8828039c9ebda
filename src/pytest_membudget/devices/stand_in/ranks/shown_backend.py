"""The backend that ``get_backend`` names, which need not be all that serves a process group."""

from typing import Any, Final

#: What serves the launcher's group, estimated and measured: the host's tensors too, as FSDP2 needs with its
#: optimizer there.
LAUNCHERS: Final = "cpu:gloo,cuda:nccl"
#: What PyTorch names where nobody named one: a group for cards alone (``BackendConfig``, 2.11 to 2.15).
UNNAMED: Final = "undefined"


def show_backend(group: Any, backend: str) -> None:
    """Let ``get_backend`` name ``backend`` of ``group``; groups made of it are of that too."""
    from torch.distributed import distributed_c10d as c10d

    shown: Any = c10d._world.pg_map
    shown[group] = (backend, shown[group][1])
