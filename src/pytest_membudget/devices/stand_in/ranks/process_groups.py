"""Process groups of a rank whose other ranks are not there: ``torch.distributed`` as under torchrun.

On cards they are PyTorch's own of NCCL, over the stand-in's NCCL, which moves nothing; so all streams, flat
copies and events are PyTorch's. What gloo would serve on the host is answered by the fake process group.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from ...real.group_begins import put
from ..values.refusals import refusal
from .launching import Place
from .lonely_store import LonelyStore
from .shown_backend import LAUNCHERS, UNNAMED, show_backend

#: What the launcher's group is shown with: what a test for cards asks for.
BACKEND = "nccl"
_FAKE = "fake"
_REMOTE_CALLS = ("rpc_sync", "rpc_async", "remote")


class ProcessGroups:
    """The process groups of one rank; once begun, for the rest of the process."""

    def __init__(self, place: Place) -> None:
        self._place = place
        #: the default group is the launcher's, and the test has not made one itself yet
        self._is_launchers = False
        #: whether the test has asked for a group
        self.was_asked = False
        self._stores: list[LonelyStore] = []
        self._init: Any = c10d.init_process_group
        self._new_group: Any = c10d._new_process_group_helper
        self._split: Any = dist.ProcessGroup.split_group

    def begin(self) -> None:
        """From here on the process is a rank in a group of all."""
        import torch.testing._internal.distributed.fake_pg  # noqa: F401 - registers the backend "fake"

        _install_remote_calls()
        own: Any = c10d
        own._new_process_group_helper = self._make_group
        # in the mode that compares ranks' calls: a group of gloo would go with each
        own._create_process_group_wrapper = lambda wrapped_pg, **_: wrapped_pg
        own._store_based_barrier = lambda *args, **kwargs: None
        kind: Any = dist.ProcessGroup
        kind.split_group = lambda *args, **kwargs: self._split_group(*args, **kwargs)
        put("init_process_group", self._init_process_group)
        dist.init_process_group(LAUNCHERS)
        show_backend(dist.group.WORLD, BACKEND)
        self._is_launchers = True
        self.was_asked = False

    def _init_process_group(
        self,
        backend: str | None = None,
        init_method: str | None = None,
        timeout: Any = None,
        world_size: int = -1,
        rank: int = -1,
        store: Any = None,
        **settings: Any,
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
        self._init(
            backend,
            timeout=timeout,
            store=self._store(),
            world_size=self._place.world_size,
            rank=self._place.rank,
            **settings,
        )

    def _store(self) -> LonelyStore:
        """A new one, kept: C++ calls it from threads that outlive the group."""
        self._stores.append(LonelyStore())
        return self._stores[-1]

    def _make_group(
        self,
        group_size: int,
        group_rank: int,
        global_ranks_in_group: list[int],
        backend: Any,
        *args: Any,
        **settings: Any,
    ) -> Any:
        """``_new_process_group_helper`` without gloo; the group is shown with the backends asked for."""
        self.was_asked = True
        split_into(group_size)
        wanted = UNNAMED if backend is None else str(backend)
        made = self._new_group(
            group_size,
            group_rank,
            global_ranks_in_group,
            c10d.Backend(_without_gloo(wanted)),
            *args,
            **settings,
        )
        if isinstance(made[0], dist.ProcessGroup):
            show_backend(made[0], wanted)
        return made

    def _split_group(self, group: Any, ranks: Sequence[int], *args: Any, **settings: Any) -> Any:
        split_into(len(ranks))
        return self._split(group, ranks, *args, **settings)


def _without_gloo(wanted: str) -> str:
    """The backends to make where ``wanted`` are asked for: gloo is answered by the fake one."""
    if wanted == BACKEND:
        return wanted
    served = c10d.BackendConfig(c10d.Backend(wanted)).get_device_backend_map()
    return ",".join(
        f"{device}:{_FAKE if backend == 'gloo' else backend}"
        for device, backend in served.items()
        if device in ("cpu", "cuda")
    )


def split_into(ranks: int) -> None:
    """Set the number of ranks of the next communicator that the stand-in's NCCL splits off."""
    ctypes.CDLL(None).stand_in_nccl_split_into(ranks)


def _install_remote_calls() -> None:
    """Let ``init_rpc`` and ``shutdown``, which wait for the other ranks, return; calls are refused."""
    from torch.distributed import rpc

    own: Any = rpc
    for name in ("init_rpc", "shutdown"):
        setattr(own, name, lambda *args, **kwargs: None)
    for name in _REMOTE_CALLS:
        setattr(own, name, _refuses(name))


def _refuses(name: str) -> Any:
    text = f"torch.distributed.rpc.{name}: a rank is estimated without the others, which would answer"

    def refuse(*args: object, **kwargs: object) -> Any:
        raise refusal(text)

    return refuse
