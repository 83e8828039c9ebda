"""Runs one test on several ranks, each in a worker and on a card, and returns one answer."""

import contextlib
import os
import shutil
import signal
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ...budgets.node_ids import name_of_rank
from ...json_object import Misfit
from ...results.answer import Answer, Request, failed
from ..client.order import Order, worker_environment
from ..processes import WORKER_MODULE, end_process, end_text, start_process
from ..protocol import BEGUN, READY, RESULT, Message, Start, Task
from ..protocol import FAILED as HAS_FAILED
from ..server.child_process import PIPE_WRITTEN, OutputFile
from ..server.stack_dump import hang_text, is_in_collective, stacks_of
from ..time_limit import Watch
from .rank_answers import FAILURES, RankEnd, combined

#: Seconds between two checks of the ranks.
_INTERVAL = 0.05
#: Seconds in which a process ends after it has closed its connections, at which other ranks raise.
_LAST_MOMENTS = 0.5
#: Seconds to start processes and to form the process group, in addition to the limit for importing tests.
_START_GRACE = 30.0


def measure_ranks(order: Order, gpus: int, request: Request) -> Answer:
    """The answer of ``gpus`` ranks to ``request``. All processes are gone when this returns or raises."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined] # public, not in its stubs

    # outside of the ranks, as torchrun has it: it outlives the first rank that fails
    store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    shared = _shared_variables(gpus, store.port)
    folder = Path(tempfile.mkdtemp(prefix="membudget-"))
    with contextlib.ExitStack() as at_end:
        at_end.callback(shutil.rmtree, folder, ignore_errors=True)
        ranks = []
        for rank in range(gpus):
            own = dict.fromkeys(("RANK", "LOCAL_RANK", "ROLE_RANK"), str(rank))
            ranks.append(RankProcess(order, request, rank, folder, {**shared, **own}))
            at_end.callback(ranks[-1].end)
        return combined(ends_of(ranks))


def _shared_variables(gpus: int, port: int) -> dict[str, str]:
    """What torchrun sets for all ranks of a machine (``_start_workers`` of its agent, torch 2.15)."""
    sizes = ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE")
    may_be_set = ("OMP_NUM_THREADS", "TORCH_NCCL_ASYNC_ERROR_HANDLING")
    return {
        **{name: os.environ.get(name, "1") for name in may_be_set},
        **dict.fromkeys(sizes, str(gpus)),
        "GROUP_RANK": "0",
        "GROUP_WORLD_SIZE": "1",
        "ROLE_NAME": "default",
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_RUN_ID": uuid.uuid4().hex,
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }


class RankProcess:
    """A worker that runs one test as a rank, in its own process and not in a child of it."""

    def __init__(
        self,
        order: Order,
        request: Request,
        rank: int,
        folder: Path,
        variables: Mapping[str, str],
    ) -> None:
        """``folder``: of the temporary files of all ranks. ``variables``: what a launcher sets."""
        self.rank = rank
        self.answer: Answer | None = None
        #: whether its process group is ready and its test has begun
        self.has_begun = False
        #: where its process writes its stack when it is asked for it
        self.stack_file = folder / f"rank-{rank}.stack"
        scratch = folder / f"rank-{rank}"
        scratch.mkdir()
        #: the output of its test; before that has begun, of its process
        self.output = OutputFile()
        #: it leads its own process group
        self.process, self._channel = start_process(
            WORKER_MODULE, self.output.file, {**worker_environment(order, str(scratch)), **variables}
        )
        #: the time limit of its start, then of its test
        self.watch = Watch(self.process.pid, order.timeout + _START_GRACE)
        self._timeout = order.timeout
        snapshot = request.snapshot and name_of_rank(request.snapshot, rank)
        self._task = Task(rank, replace(request, snapshot=snapshot))
        self._send(order.start(str(scratch), str(self.stack_file)))

    def receive(self) -> None:
        """Read the messages that it has sent."""
        try:
            while self.answer is None and (message := self._channel.receive(0)) is not None:
                self._handle(Message.from_json(message))
        except TimeoutError:
            return
        except (ValueError, Misfit):
            self.answer = failed(PIPE_WRITTEN)

    def _handle(self, message: Message) -> None:
        if message.event == READY:
            self._send(self._task)
        elif message.event == BEGUN:
            self.has_begun = True
            self.watch = Watch(self.process.pid, self._timeout)
            self.output.forget(message.printed_bytes)
        elif message.event == RESULT:
            self.answer = message.answer
        elif message.event == HAS_FAILED:
            self.answer = failed(message.reason)

    def _send(self, message: Start | Task) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has ended, which ``has_died`` finds
            self._channel.send(message.to_json())

    def has_died(self) -> bool:
        """Whether its process has ended without an answer."""
        if self.answer is None and self.process.poll() is not None:
            self.receive()
            return self.answer is None
        return False

    def end(self) -> None:
        """Kill its process and all that it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        end_process(self.process, self._channel)
        self.output.close()


def ends_of(ranks: Sequence[RankProcess]) -> list[RankEnd]:
    """Wait until all have answered or one has failed; returns how each ends, the failures first."""
    while not (failures := _failures(ranks)) and any(one.answer is None for one in ranks):
        time.sleep(_INTERVAL)
    failed = [one.rank for one in failures]
    return [*failures, *(RankEnd(one.rank, one.answer) for one in ranks if one.rank not in failed)]


def _failures(ranks: Sequence[RankProcess]) -> list[RankEnd]:
    """The ranks that have failed by themselves, by time.

    A rank that raises stays alive until it is ended, so no other rank dies because of it. A rank that has
    died before there was an answer with a failure is therefore the cause.
    """
    for one in ranks:
        one.receive()
    raised = [one for one in ranks if one.answer is not None and one.answer.outcome in FAILURES]
    if raised:
        time.sleep(_LAST_MOMENTS)
    died = [one for one in ranks if one.has_died()]
    if died:
        died_by = "its process {} before its test did"
        return [_failure(one, died_by.format(end_text(one.process.returncode))) for one in died]
    if raised:
        raised.sort(key=lambda one: (one.answer and one.answer.failed_at) or 0.0)
        return [_failure(one) for one in raised]
    return _hangs([one for one in ranks if one.answer is None])


def _hangs(silent: Sequence[RankProcess]) -> list[RankEnd]:
    """All ranks without an answer, with their stacks, if one of them is over its time limit."""
    overrun = next(filter(None, (one.watch.look() for one in silent)), None)
    if overrun is None:
        return []
    ends = []
    stacks = stacks_of([(one.process.pid, one.stack_file) for one in silent])
    for one, stack in zip(silent, stacks, strict=True):
        reason = hang_text(overrun, stack, "finish" if one.has_begun else "begin its test")
        ends.append(_failure(one, reason, waits=is_in_collective(stack)))
    return ends


def _failure(one: RankProcess, reason: str = "", *, waits: bool = False) -> RankEnd:
    return RankEnd(one.rank, one.answer, True, waits, reason, one.output.last_lines())
