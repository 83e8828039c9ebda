"""Runs one test on several ranks, each in a worker and on a card, and returns one answer."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..client.order import Order
from ..process_end import end_text
from ..server.stack_dump import hang_text, is_in_collective, stacks_of
from .rank_answers import DIED, ENDED, FAILURES, HUNG, RAISED, RankEnd, combined
from .rank_process import RankProcess

#: Seconds between two checks of the ranks.
_INTERVAL = 0.05
#: Seconds in which a process ends after it has closed its connections, at which other ranks raise.
_LAST_MOMENTS = 0.5


def measure_ranks(order: Order, gpus: int, request: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of ``gpus`` ranks to ``request``, a worker's request that names one test.

    ``outcome``, ``reason``, ``details``, ``where``, ``raised``, ``device``, ``properties``, ``has_snapshot``
    and ``snapshot_error`` are as in a worker's answer; ``reports`` has one report for each rank, and
    ``failed_rank`` is the rank that failed first. All processes are gone when this returns or raises.
    """
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


def ends_of(ranks: Sequence[RankProcess]) -> list[RankEnd]:
    """Wait until all have answered or one has failed; returns how each has ended, or will because of that."""
    while not (failures := _failures(ranks)) and any(one.answer is None for one in ranks):
        time.sleep(_INTERVAL)
    return [
        failures.get(one.rank, RankEnd(one.rank, one.answer, ENDED if one.answer is None else None))
        for one in ranks
    ]


def _failures(ranks: Sequence[RankProcess]) -> dict[int, RankEnd]:
    """The ranks that have failed by themselves, numbered by time.

    A rank that raises stays alive until it is ended, so no other rank dies because of it. A rank that has
    died before there was an answer with a failure is therefore the cause.
    """
    for one in ranks:
        one.receive()
    raised = [one for one in ranks if one.answer is not None and one.answer["outcome"] in FAILURES]
    if raised:
        time.sleep(_LAST_MOMENTS)
    died = [one for one in ranks if one.has_died()]
    if died:
        reasons = [f"its process {end_text(one.exit_code)} before its test did" for one in died]
        return {one.rank: _failure(n, one, DIED, reasons[n]) for n, one in enumerate(died)}
    if raised:
        raised.sort(key=lambda one: (one.answer or {}).get("failed_at", 0.0))
        return {one.rank: _failure(n, one, RAISED) for n, one in enumerate(raised)}
    return _hangs([one for one in ranks if one.answer is None])


def _hangs(silent: Sequence[RankProcess]) -> dict[int, RankEnd]:
    """All ranks without an answer, with their stacks, if one of them is over its time limit."""
    overrun = next(filter(None, (one.watch.look() for one in silent)), None)
    if overrun is None:
        return {}
    ends = {}
    stacks = stacks_of([(one.pid, one.stack_file) for one in silent])
    for number, (one, stack) in enumerate(zip(silent, stacks, strict=True)):
        reason = hang_text(overrun, stack, "finish" if one.has_begun else "begin its test")
        ends[one.rank] = _failure(number, one, HUNG, reason, waits=is_in_collective(stack))
    return ends


def _failure(number: int, one: RankProcess, how: str, reason: str = "", *, waits: bool = False) -> RankEnd:
    return RankEnd(one.rank, one.answer, how, number, waits, reason, one.last_lines())
