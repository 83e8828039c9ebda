"""Process groups of a rank whose other ranks are not there: ``torch.distributed`` as under torchrun."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from ..ordinal import Place, own_index
from .private import register_fake_backend
from .remote_calls import install_remote_calls
from .shown_backend import LAUNCHERS, UNNAMED, show_backend

#: What the launcher's group is shown with: what a test for cards asks for.
BACKEND = "nccl"
_FAKE = "fake"


class ProcessGroups:
    """The fake process groups of one rank; once begun, for the rest of the process."""

    def __init__(self, place: Place) -> None:
        self._place = place
        #: the default group is the launcher's, and the test has not made one itself yet
        self._is_launchers = False
        self._own: Any = dist
        self._init: Any = c10d.init_process_group
        self._new_group: Any = c10d._new_process_group_helper

    def begin(self) -> None:
        """From here on the process is a rank in a group of all."""
        register_fake_backend()
        install_remote_calls()
        own: Any = c10d
        own._new_process_group_helper = self._make_group
        own._store_based_barrier = lambda *args, **kwargs: None
        own._get_default_timeout = lambda backend: c10d.default_pg_timeout
        # the accelerator of the build is the stand-in (see ``guard``)
        torch._C._get_accelerator = lambda *args: torch.device("cuda")
        for module in (dist, c10d):
            _set(module, "init_process_group", self._init_process_group)
            _set(module, "is_nccl_available", lambda: True)
        dist.init_process_group(LAUNCHERS)
        show_backend(dist.group.WORLD, BACKEND)
        self._is_launchers = True

    def _init_process_group(
        self,
        backend: str | None = None,
        init_method: str | None = None,
        timeout: Any = None,
        world_size: int = -1,
        rank: int = -1,
        store: Any = None,
        group_name: str = "",
        pg_options: Any = None,
        device_id: Any = None,
        _ranks: Any = None,
    ) -> None:
        """``dist.init_process_group``: a test that is written for torchrun makes its group itself."""
        for what, given, own in (
            ("world_size", world_size, self._place.world_size),
            ("rank", rank, self._place.rank),
        ):
            if given not in (-1, own):
                raise ValueError(f"init_process_group({what}={given}): the test runs with {what}={own}")
        if self._is_launchers:
            self._is_launchers = False
            if dist.is_initialized():
                dist.destroy_process_group()
        if device_id is not None:
            _check_device(device_id)
        self._init(
            backend,
            timeout=timeout,
            store=self._own.HashStore() if store is None else store,
            world_size=self._place.world_size,
            rank=self._place.rank,
            group_name=group_name,
            _ranks=_ranks,
        )

    def _make_group(
        self,
        group_size: int,
        group_rank: int,
        global_ranks_in_group: list[int],
        backend: Any,
        store: Any,
        group_name: Any,
        backend_options: Any = None,
        timeout: Any = None,
        pg_tag: Any = None,
        device_id: Any = None,
        group_desc: Any = None,
        **newer: Any,  # ``enable_reconfigure`` of 2.15: of nothing here
    ) -> Any:
        """``_new_process_group_helper`` with fake backends; the group is shown with those asked for."""
        wanted = UNNAMED if backend is None else str(backend)
        made = self._new_group(
            group_size, group_rank, global_ranks_in_group, _faked(wanted), store, group_name,
            timeout=timeout, pg_tag=pg_tag, group_desc=group_desc,
        )  # fmt: skip
        group = made[0]
        if isinstance(group, dist.ProcessGroup):
            group._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)
            show_backend(group, wanted)
        return made


def _faked(wanted: str) -> str:
    """Fake backends for the devices that ``wanted`` serves: ``cuda:fake`` for nccl."""
    if wanted == UNNAMED:
        return f"cuda:{_FAKE}"
    if wanted == _FAKE:
        return f"cpu:{_FAKE},cuda:{_FAKE}"
    devices = c10d.BackendConfig(c10d.Backend(wanted)).get_device_backend_map()
    return ",".join(f"{device}:{_FAKE}" for device in devices if device in ("cpu", "cuda"))


def _check_device(device: Any) -> None:
    index = device if isinstance(device, int) else torch.device(device).index
    if index is None:
        raise ValueError("init_process_group(device_id=...): give a device with its number")
    if index != own_index():
        raise ValueError(f"init_process_group(device_id={device}): the rank's GPU is cuda:{own_index()}")


def _set(module: Any, name: str, value: Any) -> None:
    setattr(module, name, value)
