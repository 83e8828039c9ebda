"""StandInRanks: runs a test as one rank of many on the stand-in, with torch.distributed working."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from ....caveats import Caveat
from ....results.answer import TRACED, Answer, Request
from ....results.varied import WATCHDOG
from ...after_import import after_import
from ...real.collectives import install_gathered
from ...real.recorded_run import RecordedRun
from ...torch_parts import check_parts
from ..values.values import Values
from .broadcasts import Broadcasts
from .collectives import Collectives
from .identical_ranks import IdenticalRanks
from .launching import place_of, set_variables
from .nccl_share import Group
from .numbers import RankNumbers
from .objects import install_objects
from .optimizer_states import install_shares, install_states
from .pipelines import install_pipelines, install_schedules
from .process_groups import ProcessGroups
from .rank_reads import RankReads
from .torch_parts import PARTS
from .watchdog import Watchdog


class StandInRanks:
    """The ranks that the running test is one of."""

    def __init__(
        self, request: Request, run: RecordedRun, values: Values, reads: RankReads | None = None
    ) -> None:
        """``reads``: those of imports, if those had a place."""
        source, observer, numbers = run.source, run.observer, RankNumbers(values.following)
        self.place = place_of(request.rank, request.world_size, os.environ)
        self._identical_ranks = IdenticalRanks(self.place, reads or RankReads(source))
        self._broadcasts = Broadcasts(numbers, request.rank, request.received, source)
        self._observer = observer
        self._process_groups = ProcessGroups(self.place)
        self._watchdog = Watchdog()
        self._collectives = Collectives(
            source, observer.note_collective, numbers, self._broadcasts, self._watchdog, values.quiet
        )

    @property
    def groups(self) -> Mapping[str, Group]:
        """The process groups that have communicated on cards, for ``nccl_share``."""
        return self._collectives.groups

    def begin(self) -> None:
        """From here on the process is the rank, for good: with its GPU, in a process group of all ranks.

        Raises ``UnsupportedTorch`` for a torch that lacks what ranks rest on.
        """
        check_parts(PARTS)
        set_variables(self.place, os.environ)
        torch.cuda.set_device(self.place.local_rank)
        self._collectives.install()
        install_gathered(self._observer.note_collective, self._observer.see_gradient)
        self._watchdog.install()
        install_objects(self._broadcasts)
        after_import("torch.distributed.checkpoint.utils", _install_checkpoints)
        states = install_states(self._broadcasts)
        after_import("torch.distributed.optim.zero_redundancy_optimizer", states)
        after_import("torch.distributed.fsdp._optim_utils", install_shares)
        after_import("torch.distributed.pipelining.stage", install_pipelines)
        after_import("torch.distributed.pipelining.schedules", install_schedules)
        self._process_groups.begin()
        self._identical_ranks.watch()

    def completed(self, answer: Answer) -> Answer:
        """After a test: its ``answer`` with what this rank and the others are to each other."""
        used = self._collectives.were_called or self._broadcasts.was_used
        if self.place.rank == 0 and answer.outcome == TRACED:  # it says which others must run
            answer = replace(answer, other_ranks=self._identical_ranks.others())
        return replace(
            answer,
            broadcasts=self._broadcasts.sent(),
            has_exchanged=self._broadcasts.has_exchanged,
            unheard=tuple(self._broadcasts.missing),
            taken=self._broadcasts.taken(),
            has_met=used or self._process_groups.was_asked,
            unknown=(WATCHDOG,) if self._watchdog.lets_go else (),
        )

    def caveats(self, root: str) -> list[Caveat]:
        """What is taken for granted of values that other ranks have, and not counted of collectives."""
        return [*self._broadcasts.caveats(root), *self._watchdog.caveats()]


def _install_checkpoints(utils: Any) -> None:
    """Let no rank wait for a plan in ``utils``, the module ``torch.distributed.checkpoint.utils``.

    Each plans for itself alone, as the others are not there. What all ranks have each of them writes: on a
    card it is shared out, and each tensor is on the host once.
    """
    kind: Any = utils._DistWrapper

    def checked(ranks: Any, step: str, function: Callable[[], Any]) -> Any:
        try:
            return function()
        except BaseException as error:
            raise utils.CheckpointException(step, {ranks.rank: utils._wrap_exception(error)}) from None

    def reduce_scatter(ranks: Any, step: str, map_fun: Callable[[], Any], reduce_fun: Any) -> Any:
        return checked(ranks, step, lambda: reduce_fun([map_fun()])[0])

    def all_reduce(ranks: Any, step: str, map_fun: Callable[[], Any], reduce_fun: Any) -> Any:
        return checked(ranks, step, lambda: reduce_fun([map_fun()]))

    def broadcast(ranks: Any, step: str, map_fun: Callable[[], Any]) -> Any:
        return checked(ranks, step, map_fun)

    kind.reduce_scatter, kind.all_reduce, kind.broadcast = reduce_scatter, all_reduce, broadcast
