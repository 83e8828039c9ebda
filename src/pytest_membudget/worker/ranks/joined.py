"""One rank of a launcher's: runs it, and meets those of the other sessions at a store."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from ..protocol import Channel
from ..server.child_process import SessionGone
from ..server.process_exit import leave
from .rank_answers import ENDED, HUNG, LOST, RAISED, combined, entry
from .rank_files import RankFiles, rank_arguments
from .rank_watch import START_GRACE, RankWatch

#: Seconds between two looks at the rank, and at the store.
_INTERVAL = 0.05
_STORE_INTERVAL = 0.2
#: Seconds that a rank which raised waits for word of one that died: then it has raised because of that.
_DEFERENCE = 0.5
#: Seconds that the other sessions get to tell what has become of their ranks once one has failed, and
#: beyond the time limits of their tests.
_GRACE = 15.0


def answer_with_others(channel: Channel, order: dict[str, Any]) -> dict[str, Any]:
    """The answer of all ranks, the same in every session that the launcher has started."""
    return _Session(channel, order).answer()


class _Meeting:
    """The store at which the sessions meet, under a prefix that is this test's alone."""

    def __init__(self, joined: dict[str, Any], prefix: str, timeout: float) -> None:
        """``prefix``: the test's. A launcher's agent keeps its store: it counts the runs of the same test."""
        import torch.distributed as dist

        tcp = dist.TCPStore(  # type: ignore[attr-defined]
            joined["master_addr"],
            joined["master_port"],
            is_master=joined["hosts_store"],
            timeout=timedelta(seconds=timeout),
            multi_tenant=True,
            wait_for_workers=False,
        )
        run = tcp.add(f"{prefix}/runs-of-rank-{joined['rank']}", 1)
        self.prefix = f"{prefix}/{run}"
        self._store = dist.PrefixStore(self.prefix, tcp)  # type: ignore[attr-defined]
        self._hosts_store = joined["hosts_store"]
        self._world_size: int = joined["world_size"]

    def number_of(self, failure: str) -> int:
        """Tell that a rank has failed; the how many-th it is to do so."""
        number = int(self._store.add("failures", 1))
        if number == 1:
            self._store.set("first", failure)
        return number

    def first_failure(self) -> str | None:
        """How the first has failed."""
        return self._store.get("first").decode() if self._store.check(["first"]) else None

    def tell(self, told: dict[str, Any]) -> None:
        """What has become of a rank."""
        self._store.set(f"rank-{told['rank']}", json.dumps(told))

    def told(self) -> list[dict[str, Any]]:
        """What has been told of ranks by now."""
        keys = [f"rank-{rank}" for rank in range(self._world_size)]
        return [json.loads(self._store.get(key)) for key in keys if self._store.check([key])]

    def part(self) -> None:
        """All is told. Who keeps the store waits for the others to have heard it."""
        left = self._store.add("left", 1)
        deadline = time.monotonic() + _GRACE
        while self._hosts_store and left < self._world_size and time.monotonic() < deadline:
            time.sleep(_INTERVAL)
            left = self._store.add("left", 0)


class _Session:
    """This session's rank among the others."""

    def __init__(self, channel: Channel, order: dict[str, Any]) -> None:
        self._channel = channel
        self._order = order
        self._joined: dict[str, Any] = order["joined"]
        self._rank: int = self._joined["rank"]
        self._folder = Path(order["folder"])
        self._digest = hashlib.sha256(order["request"]["key"].encode()).hexdigest()
        self._watch = RankWatch(self._folder, {self._rank: self._joined["local_rank"]}, order["timeout"])
        #: when the other sessions are late, whatever has happened there
        self._limit = time.monotonic() + 2 * order["timeout"] + START_GRACE + _GRACE

    def answer(self) -> dict[str, Any]:
        """The answer of all ranks."""
        import torch.distributed as dist

        try:
            meeting = _Meeting(self._joined, f"membudget/{self._digest}", self._order["timeout"])
            return self._answer_at(meeting)
        except dist.DistError as error:
            place = f"{self._joined['master_addr']}:{self._joined['master_port']}"
            reason = f"the ranks do not meet at MASTER_ADDR:MASTER_PORT, {place}, or no more ({error})"
            return {"outcome": "error", "reason": reason, "reports": []}

    def _answer_at(self, meeting: _Meeting) -> dict[str, Any]:
        process = self._start(meeting.prefix)
        try:
            meeting.tell(self._run(process, meeting))
            entries = self._gather(meeting)
            meeting.part()
            return combined(entries)
        except SessionGone:
            number, reason = meeting.number_of(LOST), "its session has ended"
            meeting.tell(entry(self._rank, None, failure=LOST, number=number, reason=reason))
            self._watch.end_all()
            meeting.part()
            shutil.rmtree(self._folder, ignore_errors=True)
            leave(1)
        finally:
            self._watch.end_all()
            process.kill()
            process.wait()

    def _start(self, prefix: str) -> subprocess.Popen[bytes]:
        place = {"host": self._joined["master_addr"], "port": self._joined["master_port"]}
        meeting = {**place, "prefix": f"{prefix}/group"}
        arguments = rank_arguments(self._folder, {**self._order, "meeting": meeting})
        with RankFiles(self._folder, self._rank).path("out").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self._order["variables"]},
                start_new_session=True,
            )

    def _run(self, process: subprocess.Popen[bytes], meeting: _Meeting) -> dict[str, Any]:
        """What has become of this session's rank, which is over then."""
        others_failure = self._watch_rank(process, meeting)
        if RAISED in self._watch.failures.values():
            self._defer(meeting)
        # before it is ended: the other ranks may raise because of that
        failure = self._watch.failures.get(self._rank)
        number = meeting.number_of(failure) if failure is not None else 0
        if failure is None and others_failure is None:
            self._let_leave(process)
        self._watch.end_all()
        process.kill()
        [own] = self._watch.entries({self._rank: process.wait()})
        if own["failure"] is None or failure is not None:
            return {**own, "number": number}
        if others_failure is not None:
            return {**own, "failure": ENDED}
        return {**own, "number": meeting.number_of(own["failure"])}

    def _let_leave(self, process: subprocess.Popen[bytes]) -> None:
        """It has answered and leaves its group by itself: others may still be in the last collective."""
        deadline = time.monotonic() + _GRACE
        while process.poll() is None and time.monotonic() < deadline:
            self._pause()

    def _watch_rank(self, process: subprocess.Popen[bytes], meeting: _Meeting) -> str | None:
        """Until it is over, or another rank has failed: how, then."""
        next_word = 0.0
        while not self._watch.look() and not self._watch.is_done() and process.poll() is None:
            self._pause()
            if time.monotonic() < next_word:
                continue
            next_word = time.monotonic() + _STORE_INTERVAL
            failure = meeting.first_failure()
            if failure is not None:
                if failure == HUNG:  # and so does this one, for all that is known
                    self._watch.note_hang()
                return failure
        self._watch.look()
        return None

    def _defer(self, meeting: _Meeting) -> None:
        deadline = time.monotonic() + _DEFERENCE
        while meeting.first_failure() is None and time.monotonic() < deadline:
            self._pause()

    def _gather(self, meeting: _Meeting) -> Sequence[dict[str, Any]]:
        """What has become of all ranks; of those of which nothing is heard, that."""
        limit = self._limit
        while len(told := meeting.told()) < self._joined["world_size"] and time.monotonic() < limit:
            self._pause(_STORE_INTERVAL)
            if meeting.first_failure() is not None:
                limit = min(limit, time.monotonic() + _GRACE)
        heard = {one["rank"] for one in told}
        missing = [rank for rank in range(self._joined["world_size"]) if rank not in heard]
        reason = "nothing was heard of it: its session has ended, or did not come to this test"
        return [*told, *(entry(rank, None, failure=LOST, reason=reason) for rank in missing)]

    def _pause(self, seconds: float = _INTERVAL) -> None:
        """Wait. Raises ``SessionGone`` when nobody wants an answer any more."""
        try:
            is_gone = self._channel.receive(seconds) is None
        except TimeoutError:
            return
        if is_gone:
            raise SessionGone
