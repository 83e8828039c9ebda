"""One rank of many on the stand-in: the process is told who it is, and torch.distributed answers."""

from __future__ import annotations

import os
from collections.abc import Mapping

import torch

from ....caveats import Caveat
from ....tracking.running_code.source import SourceFinder
from ...fake.after_import import after_import
from ...fake.cluster.broadcasts import Broadcasts
from ...fake.cluster.groups import Group
from ...fake.cluster.launching import place_of, tell
from ...fake.cluster.likeness import Likeness
from ...fake.cluster.objects import install_objects
from ...fake.cluster.pipelines import install_pipelines, install_schedules
from ...fake.ordinal import take_place
from ...fake.private import check_parts
from ...real.collectives import NoteCollective
from ...real.gathered import SeeGradient, install_gathered
from .collectives import Collectives
from .memory_numbers import MemoryNumbers, RankNumbers
from .private import PRIVATE_PARTS
from .process_groups import ProcessGroups
from .reducers import install_reducers


class StandInRanks:
    """The ranks that the running test is one of."""

    def __init__(
        self,
        rank: int,
        world_size: int,
        source: SourceFinder,
        note_collective: NoteCollective,
        heard: str = "",
        numbers: RankNumbers | None = None,
        see_gradient: SeeGradient = lambda parameter, gradient: None,
    ) -> None:
        """``note_collective(tensor, kept=...)`` is told of the tensors of collectives, each time.

        ``heard``: what rank 0 has ``said``, if it ran before. ``numbers``: what is known of tensors; without,
        whatever small tensors hold. ``see_gradient`` is told of gradients that no module's parameters have.
        """
        self.place = place_of(rank, world_size, os.environ)
        self._likeness = Likeness(self.place, source)
        numbers = numbers or MemoryNumbers()
        self._broadcasts = Broadcasts(numbers, rank, heard)
        self._note_collective = note_collective
        self._see_gradient = see_gradient
        self._collectives = Collectives(source, note_collective, numbers, self._broadcasts)

    @property
    def groups(self) -> Mapping[str, Group]:
        """The process groups that have communicated on cards, for ``nccl_share``."""
        return self._collectives.groups.seen

    def begin(self) -> None:
        """From here on the process is the rank, for good: with its GPU, in a process group of all ranks.

        Raises ``UnsupportedTorch`` for a torch that lacks what ranks rest on.
        """
        check_parts(PRIVATE_PARTS)
        take_place(self.place)
        tell(self.place, os.environ)
        torch.cuda.set_device(self.place.local_rank)
        self._collectives.install()
        install_gathered(self._note_collective, self._see_gradient)
        install_reducers()
        install_objects(self._broadcasts)
        after_import("torch.distributed.pipelining.stage", install_pipelines)
        after_import("torch.distributed.pipelining.schedules", install_schedules)
        ProcessGroups(self.place).begin()
        self._likeness.watch()

    def representative_ranks(self) -> list[int]:
        """After rank 0's run: the ranks beside it that must be estimated, so that the worst is known."""
        return self._likeness.representative_ranks()

    def said(self) -> str:
        """What rank 0 has told the others, for their ``heard``."""
        return self._broadcasts.said()

    def rank_caveats(self) -> list[Caveat]:
        """What is taken for granted of the ranks that are not estimated; empty if there are none."""
        return self._likeness.caveats()
