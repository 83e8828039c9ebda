"""VirtualCluster: runs a test as one rank of many, with torch.distributed on fake process groups."""

from __future__ import annotations

import os
from typing import Any

import torch

from ....caveats import Caveat
from ....tracking.tracker import Tracker
from ..after_import import after_import
from ..mode import VirtualMode
from ..ordinal import take_place
from ..private import check_parts
from .broadcasts import Broadcasts
from .global_shapes import install_global_shapes
from .identical_ranks import IdenticalRanks
from .launching import place_of, set_variables
from .list_sharding import install_list_sharding
from .meshes import install_meshes
from .objects import install_objects
from .pipelines import install_pipelines, install_schedules
from .private import PRIVATE_PARTS
from .process_groups import ProcessGroups
from .reducers import install_reducers
from .shard_places import install_shard_places
from .sharded_parameters import install_sharded_parameters
from .wrapped_devices import install_wrapped_devices


class VirtualCluster:
    """The cluster that the running test is one rank of."""

    def __init__(
        self, rank: int, world_size: int, tracker: Tracker, mode: VirtualMode, rank0_broadcasts: str = ""
    ) -> None:
        """``rank0_broadcasts``: rank 0's ``broadcasts()``, if it ran before."""
        self.place = place_of(rank, world_size, os.environ)
        self._tracker = tracker
        self._mode = mode
        self._identical_ranks = IdenticalRanks(self.place, tracker.source)
        self._broadcasts = Broadcasts(mode.known, rank, rank0_broadcasts)

    def begin(self) -> None:
        """From here on the process is the rank, for good.

        Raises ``UnsupportedTorch`` for a torch that lacks what the cluster needs.
        """
        check_parts(PRIVATE_PARTS)
        take_place(self.place)
        set_variables(self.place, os.environ)
        cuda: Any = torch.cuda
        cuda.default_generators = cuda.default_generators[:1] * self.place.node_gpus
        install_meshes(self._mode.known)
        install_global_shapes()
        install_list_sharding()
        install_shard_places()
        install_wrapped_devices()
        install_reducers()
        install_sharded_parameters(self._tracker)
        install_objects(self._broadcasts)
        self._mode.collectives.broadcasts = self._broadcasts
        after_import("torch.distributed.pipelining.stage", install_pipelines)
        after_import("torch.distributed.pipelining.schedules", install_schedules)
        ProcessGroups(self.place).begin()
        self._identical_ranks.watch()

    def representative_ranks(self) -> list[int]:
        """The ranks other than rank 0 that must be estimated."""
        return self._identical_ranks.representative_ranks()

    def broadcasts(self) -> str:
        """What rank 0 has broadcast, as text for the ``rank0_broadcasts`` of other ranks."""
        return self._broadcasts.sent()

    def rank_caveats(self) -> list[Caveat]:
        """What is taken for granted of the others."""
        return self._identical_ranks.caveats()
