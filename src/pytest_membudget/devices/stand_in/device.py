"""CUDA cards that are not there: PyTorch's own CUDA code runs, and its allocator says what it took."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import torch

from ...caveats import CONVOLUTION, HOW, LIBRARY, OTHER_CARD, UNTRAINED, Caveat, caveats_of
from ...hardware.gpus import Gpu, find_gpu
from ...memory_report import MemoryReport
from ...results.answer import Answer, Request
from ...results.varied import CARD_MEMORY, IMPORTS, NUMBERS
from ...tracking.summary import memory_report
from ...units import gib_text
from ..after_import import after_import
from ..real.device import Device, allocators_peaks
from ..real.observer import allocated_bytes
from ..real.origins import operator_name
from .after_fork import allow_cuda_after_fork
from .card_memory import CardMemory
from .engine_threads import wait_for_engine
from .environment import INDUCTOR_VARIABLE, cards_text
from .host.draw_ends import DRAW_ENDS
from .host.draws import HostDraws
from .host.garbage import Garbage
from .host.hollow import HollowTensors
from .host.pools import Pools
from .host.run import HostRun
from .libraries import StandInLibraries
from .ranks.group_of_one import begin_with_group_of_one
from .ranks.launching import PLACES, place_of, set_variables, watch_environment
from .ranks.nccl_share import nccl_share
from .saving import install_saving
from .self_check import self_check
from .values.values import Values
from .values.variants import VARIANT

if TYPE_CHECKING:
    from .ranks.rank_reads import RankReads
    from .ranks.ranks import StandInRanks

#: Of a function of NVIDIA's libraries.
REFUSED: Final = (
    "{} was called, which the stand-in refuses: leave the call out of the test, or measure it on a GPU "
    "(--membudget-measure=require)"
)


def made_for(gpu: Gpu) -> StandInDevice:
    """The device of a worker that is started for ``gpu``."""
    return StandInDevice(gpu)


_NO_BACKWARD = "an optimizer was made, and no parameter has got a gradient"


class StandInDevice(Device):
    """The cards of one worker process, which is started for one kind and number of them."""

    #: as texts call it
    name = "the stand-in"

    def __init__(self, gpu: Gpu) -> None:
        """``gpu``: the kind of card that the process was started for."""
        super().__init__()
        self.gpu = gpu
        self._libraries = StandInLibraries()
        self._values = Values(self._run.source, self._run.observer)
        following, observer = self._values.following, self._run.observer
        self._hollow = HollowTensors(following, self._run.source, observer.roles.computed)
        self._host = HostRun(following, observer)
        observer.backward_ended = wait_for_engine
        self._draws = HostDraws()
        self._memory = CardMemory(self._run.source)
        self._garbage = Garbage(lambda: allocated_bytes() + following.host.held_bytes())
        #: what nobody knew while files were imported
        self._imported: list[str] = []
        self._end_watch: Callable[[], None] = lambda: None
        #: where files asked for their rank while they were imported, if they had one
        self._rank_reads: RankReads | None = None
        self._limited = False
        self._figures_only = False
        self._rank = 0
        self._ranks: StandInRanks | None = None
        self._pools = Pools()

    def install(self) -> None:
        """Record from the moment on at which CUDA is begun to be used: by an import, or by the test."""
        DRAW_ENDS.install()
        self._hollow.install()
        self._host.install()
        self._values.install()
        install_saving(self._values.following)
        self._draws.install()
        self._pools.install()
        self._memory.install()
        _read_unwinding_tables()
        self._libraries.sort_symbols()
        operator_name("")  # reads the names of all
        self._run.install()

    def become(self, gpu: Gpu, cards: int) -> None:
        """Have so many ``cards`` of the kind ``gpu``, in place of those of its start."""
        self.gpu = gpu
        self._libraries.set_cards(cards_text(gpu, cards, unlimited=True))

    def follow_imports(self) -> None:
        """Follow the operators that imports have brought."""
        self._values.follow_imports()

    def begin_imports(self, variant: int, *, limited: bool, rank: int = 0, world_size: int = 0) -> None:
        """Before files are imported: answer what nobody knows as ``variant`` has it; see ``Device``."""
        self._begin_variant(variant, (), is_importing=True)
        self._memory.begin(self.gpu, is_named=limited)
        if world_size:
            from .ranks.rank_reads import RankReads

            set_variables(place_of(rank, world_size, os.environ), os.environ)
            self._rank_reads = RankReads(self._run.source)
            self._rank_reads.watch_imports()
        else:
            self._end_watch = watch_environment(self._place_sought, self._place_sought)

    def _place_sought(self, name: str, frame: FrameType | None) -> None:
        """While files are imported: ranks differ by these variables, which are not there."""
        self.imports_ask_place |= name in PLACES and self._run.source.find(3)[0] is not None

    def end_imports(self) -> None:
        """The files have been imported: what follows is asked by tests."""
        self._end_watch()
        self._imported = [*self._answered(), *self._draws.imported()]
        # for the names of compiled kernels, all of Triton's files are read once a process: not in each run
        read = getattr(sys.modules.get("triton.runtime.cache"), "triton_key", None)
        if read is not None:
            read()

    def self_check(self) -> None:
        """Raise ``UnsupportedTorch`` if a step with known figures has others; for a process that ends."""
        self_check(self, self.gpu)

    def refused(self) -> list[str]:
        """What was refused in this process that a GPU would have done, each with its place."""
        return [*self._values.refused(), *map(REFUSED.format, self._libraries.refused())]

    def begin(self, request: Request) -> None:
        """A test begins: on its card, as its rank, with the answers and the seed of its variant."""
        self._limited, self._figures_only = request.limited, request.figures_only
        self._begin_variant(request.variant, request.steady)
        self._garbage.begin(is_kept=VARIANT.keeps_garbage)
        gpu = find_gpu(request.gpu)
        cards = cards_text(gpu, self._libraries.card_count(), unlimited=not request.limited)
        self._libraries.set_cards(cards)
        allow_cuda_after_fork()
        torch.cuda.init()
        self._memory.begin(gpu, is_named=request.limited)
        self._run.test_begins()
        if self._figures_only:
            self._run.leave_out_purposes()
        self._values.follow_imports()
        _forget_compiled_code()
        begin_ranks = partial(self._begin_ranks, request)
        if request.world_size > 1:
            begin_ranks()
        else:
            begin_with_group_of_one(begin_ranks)

    def _begin_variant(self, variant: int, steady: Sequence[str], *, is_importing: bool = False) -> None:
        VARIANT.begin(variant, steady)
        self._draws.begin(VARIANT.seed, VARIANT.draw_end, is_importing=is_importing)
        self._libraries.vary(other=VARIANT.number > 0)

    def body_ended(self, *, is_program: bool = False) -> None:
        """Note that the test's body has ended, and its fixtures have not."""
        with self._garbage.not_looked_at():
            super().body_ended(is_program=is_program)

    def completed(self, answer: Answer) -> Answer:
        """After a test: why other variants may give another figure, and by what they are compared."""
        own = [*self._answered(), *self._draws.drawn(), *self._garbage.found()]
        imported = [one for one in self._imported if one != CARD_MEMORY or not self._limited]
        answer = self._ranks.completed(answer) if self._ranks is not None else answer
        unknown = dict.fromkeys([*own, *imported, *([IMPORTS] if imported else []), *answer.unknown])
        assert self._ended is not None
        history = self._ended.history
        lives = self._ended.lives if NUMBERS in own else None
        return replace(
            answer,
            unknown=tuple(unknown),
            allocations=history.digest() if unknown or self._figures_only else "",
            sizes=tuple(sorted(lives.most_at_once().items())) if lives is not None else (),
            last_read=self._values.following.reads.last_line,
        )

    def _answered(self) -> list[str]:
        return [*self._values.unknown(), *self._libraries.asked(), *self._memory.unknown()]

    def reads(self, root: str) -> list[str]:
        """The reads so far of what nobody knows, the most frequent first."""
        return self._values.following.reads.by_frequency(root)

    def _begin_ranks(self, request: Request) -> None:
        from .ranks.ranks import StandInRanks

        self._rank = request.rank
        self._ranks = StandInRanks(request, self._run, self._values, self._rank_reads)
        self._ranks.begin()

    def end(self, *, metric: str, root: str, records: bool = False) -> MemoryReport:
        """The test has ended, its fixtures with it: what it took."""
        recorded = self._end_run(records=records)
        nccl = nccl_share(self.gpu, self._ranks.groups.values() if self._ranks is not None else (), metric)
        return memory_report(
            recorded.ledger,
            metric=metric,
            context_bytes=self.gpu.context_bytes,
            nccl_bytes=nccl.size_bytes,
            root=root,
            caveats=(
                *self._values.caveats(root),
                *self._hollow.reads.caveats(root),
                *caveats_of(HOW, self._context_texts(metric)),
                *self._memory.caveats(root),
                *self._pools.caveats(),
                *self._not_modelled(),
                *caveats_of(UNTRAINED, [_NO_BACKWARD] if self._run.observer.roles.is_untrained else []),
                *nccl.caveats,
                *caveats_of(OTHER_CARD, _on_other_cards()),
                *(self._ranks.caveats(root) if self._ranks is not None else ()),
            ),
            seconds=recorded.seconds,
            rank=self._rank,
            host=self._host.report(root=root, rank=self._rank),
            device="stand-in",
            peaks=allocators_peaks(
                recorded.stats, self.gpu.context_bytes + nccl.size_bytes + self._others_bytes(recorded.stats)
            ),
            lives=recorded.lives,
        )

    def _others_bytes(self, stats: Mapping[str, int]) -> int:
        """What others than PyTorch's allocator add to the most that was taken of the card at once."""
        most_bytes = self._libraries.most_used_bytes(torch.cuda.current_device())
        return max(0, most_bytes - stats.get("reserved_bytes.all.peak", 0))

    def _context_texts(self, metric: str) -> list[str]:
        """The context's size is in the metric ``device``, and reduces what a card can hold."""
        return [self.gpu.context_assumption] if metric == "device" or self._limited else []

    def _not_modelled(self) -> Iterator[Caveat]:
        is_hopper = self.gpu.capability[0] == 9  # where convolutions were measured
        for text in self._libraries.not_modelled():
            yield Caveat(CONVOLUTION if is_hopper and "(convolution " in text else LIBRARY, text)


def _forget_compiled_code() -> None:
    """Give inductor a new cache folder: a first run takes more than one that finds its kernels tuned.

    The worker's own folder is around it, and goes with the worker. Triton's keeps what it has compiled.
    """
    after_import("triton.runtime.autotuner", _tune_anew)
    around = os.environ.get(INDUCTOR_VARIABLE)
    if around is not None:
        os.makedirs(around, exist_ok=True)
        os.environ[INDUCTOR_VARIABLE] = tempfile.mkdtemp(dir=around)


def _tune_anew(autotuner: Any) -> None:
    """Nothing is found that another process has tuned: Triton 3.4 keeps it on disk (``cache_results``)."""
    autotuner.Autotuner.check_disk_cache = lambda _tuner, _key, _configs, tune: tune()


def _on_other_cards() -> list[str]:
    """What a test has put on cards that are other ranks': a figure is of the rank's own card alone."""
    found = []
    for index in range(torch.cuda.device_count()):
        peak_bytes = torch.cuda.max_memory_allocated(index)
        if index != torch.cuda.current_device() and peak_bytes:
            found.append(f"{gib_text(peak_bytes)} on cuda:{index}, which is another rank's: not counted")
    return found


def _read_unwinding_tables() -> None:
    """Take a C++ stack once: reading the tables of torch's libraries takes seconds, in each test otherwise.

    ``torch._C._profiler`` is private; see tests/devices/stand_in/test_device.py.
    """
    profiler: Any = torch._C._profiler
    profiler.symbolize_tracebacks([profiler.gather_traceback(python=False, script=False, cpp=True)])
