"""IdenticalRanks: which ranks must be estimated so that the worst is known, and what is assumed of the rest.

Sharding gives rank 0 the largest part of everything (``torch.chunk``), and the last rank the smallest. Ranks
differ otherwise by the stage of a pipeline they run, by the parameters that an optimizer has assigned to each
(ZeroRedundancyOptimizer), and by what the user's own code does once it has asked for its rank: then up to 8
are all run, and of more those at the ends of machines, one between, and those whose numbers the code names.
"""

import os
from collections.abc import Sequence
from typing import Any

from ....caveats import HOW, OTHER_RANKS, Caveat
from ....results.answer import OtherRanks
from ....tracking.running_code.source import shown_path
from ...after_import import after_import
from .launching import Place
from .rank_reads import RankReads

#: With more ranks than this not every one is estimated where the user's code asks for its rank.
MOST_RANKS = 8


class IdenticalRanks:
    """Watches what makes ranks differ while rank 0 runs."""

    def __init__(self, place: Place, reads: RankReads) -> None:
        """``reads``: may have those of imports already."""
        self._place = place
        self._reads = reads
        #: a rank of each other stage of a pipeline
        self._stages: set[int] = set()
        #: the rank to which an optimizer has assigned the most
        self._owners: set[int] = set()

    def watch(self) -> None:
        """Start watching what the test does."""
        after_import("torch.distributed.pipelining.stage", self._watch_stages)
        after_import("torch.distributed.optim.zero_redundancy_optimizer", self._watch_partitions)
        self._reads.watch()

    def others(self) -> OtherRanks:
        """The ranks other than rank 0 that must be estimated, in order, and what is assumed of the rest."""
        size = self._place.world_size
        if self._reads.lines and size <= MOST_RANKS:
            return OtherRanks(tuple(range(1, size)))
        picked = self._reads.picked(size, self._place.rank) if self._reads.lines else set()
        chosen = {size - 1, *self._stages, *self._owners, *picked} - {0}
        tried = self._ends_of_machines() - chosen - {0} if self._reads.lines else set()
        estimated = sorted(chosen | tried)
        return OtherRanks(tuple(estimated), tuple(sorted(tried)), tuple(self._caveats([0, *estimated])))

    def _ends_of_machines(self) -> set[int]:
        """Of the first and the last, and a rank between: all that is unknown is tried so."""
        size = self._place.world_size
        machine = min(self._place.node_gpus, size)
        last = (size - 1) // machine * machine
        between = size // 2 // machine * machine + machine // 2
        return {machine - 1, last, between}

    def _caveats(self, estimated: Sequence[int]) -> list[Caveat]:
        """What is assumed of the others; nothing if every rank is ``estimated``."""
        if len(estimated) == self._place.world_size:
            return []
        known = ", ".join(map(str, estimated))
        text = f"ranks {known} represent all {self._place.world_size}: sharding gives rank 0 the most"
        if self._stages:
            text += ", and there is a rank of each pipeline stage"
        if self._owners:
            text += ", and the one with the most optimizer states"
        if self._reads.lines:
            file, line = next(iter(self._reads.lines))
            asked = f"{shown_path(file, os.getcwd())}:{line}"
            text += f"; what the others do once {asked} has asked for the rank is taken to need no more"
        has_names = self._reads.has_names(self._place.world_size, self._place.rank)
        return [Caveat(OTHER_RANKS if has_names else HOW, text)]

    def _watch_stages(self, module: Any) -> None:
        kind = module._PipelineStageBase
        original = kind.__init__

        def init(stage: Any, *args: Any, **kwargs: Any) -> None:
            original(stage, *args, **kwargs)
            from torch.distributed import get_process_group_ranks

            self._stages.update(get_process_group_ranks(stage.group))

        kind.__init__ = init

    def _watch_partitions(self, module: Any) -> None:
        kind = module.ZeroRedundancyOptimizer
        original = kind.__init__

        def init(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            original(optimizer, *args, **kwargs)
            sizes = [
                sum(parameter.numel() for group in groups for parameter in group["params"])
                for groups in optimizer._partition_parameters()
            ]
            from torch.distributed import get_process_group_ranks

            self._owners.add(get_process_group_ranks(optimizer.process_group)[sizes.index(max(sizes))])

        kind.__init__ = init
