"""Watches the ranks of one machine: which have answered, died or hung, and which failed first."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..process_end import end_text
from ..server.stack_dump import hang_text, is_in_collective, stacks_of
from ..time_limit import Overrun, Watch
from .rank_answers import DIED, ENDED, FAILURES, HUNG, RAISED, RankEnd
from .rank_files import RankFiles

#: Seconds to start processes and to form the process group, in addition to the limit for importing tests.
_START_GRACE = 30.0


class RankWatch:
    """The processes of a test's ranks, children of this one, through their files.

    ``failures``: how ranks failed, in order of time; without those that were ended because of another.
    """

    def __init__(self, folder: Path, world_size: int, timeout: float) -> None:
        """``timeout``: seconds, see ``time_limit``; the time before the test has a longer limit."""
        self._files = {rank: RankFiles(folder, rank) for rank in range(world_size)}
        self._timeout = timeout
        #: the time limit of each rank, first for its start and then for its test
        self._watches = self._watched(timeout + _START_GRACE)
        self._have_begun = False
        self._overrun: Overrun | None = None
        self._places: dict[int, str] = {}
        self.failures: dict[int, str] = {}

    def look(self) -> bool:
        """Whether a rank has failed.

        A rank that raises stays alive until it is ended, so no other rank dies because of it. A rank that has
        died before there was an answer with a failure is therefore the cause.
        """
        raised = {rank: answer for rank, answer in self.answers().items() if answer["outcome"] in FAILURES}
        gone = [rank for rank, files in self._files.items() if _is_gone(files.pid())]
        answers = self.answers()
        died = [rank for rank in gone if rank not in answers]
        self.failures.update(dict.fromkeys(died, DIED))
        if not died:
            in_order = sorted(raised, key=lambda rank: float(raised[rank].get("failed_at", 0.0)))
            self.failures.update(dict.fromkeys(in_order, RAISED))
        overrun = None if self.failures else self._overrun_of_silent()
        if overrun is not None:
            self._note_hang(overrun)
        return bool(self.failures)

    def answers(self) -> dict[int, dict[str, Any]]:
        """The answers so far."""
        found = {rank: files.answer() for rank, files in self._files.items()}
        return {rank: answer for rank, answer in found.items() if answer is not None}

    def is_done(self) -> bool:
        """Whether all have answered."""
        return len(self.answers()) == len(self._files)

    def _note_hang(self, overrun: Overrun) -> None:
        """Get the stacks of ranks that have not answered: they hang."""
        self._overrun = overrun
        answers = self.answers()
        silent = [rank for rank in self._files if rank not in answers]
        asked = {rank: pid for rank in silent if (pid := self._files[rank].pid()) is not None}
        places = stacks_of([(pid, self._files[rank].path("where")) for rank, pid in asked.items()])
        self._places.update(zip(asked, places, strict=True))
        self.failures.update(dict.fromkeys(silent, HUNG))

    def end_all(self) -> None:
        """Kill all ranks and the processes that they have started."""
        for files in self._files.values():
            files.end_group()

    def ends(self, exit_codes: Mapping[int, int]) -> list[RankEnd]:
        """How each rank ended, after all have; ranks that are not in ``exit_codes`` have exit status 0."""
        self._note_deaths(exit_codes)
        answers = self.answers()
        return [self._end(rank, answers.get(rank), exit_codes.get(rank, 0)) for rank in self._files]

    def _note_deaths(self, exit_codes: Mapping[int, int]) -> None:
        """Ranks that ended before a check saw them; a rank that got SIGTERM is not the first."""
        if any(failure != DIED for failure in self.failures.values()):
            return
        answers = self.answers()
        silent = [rank for rank in self._files if rank not in answers]
        unseen = [rank for rank in silent if not self.failures or self._files[rank].pid() is None]
        died = list(dict.fromkeys([*self.failures, *unseen]))
        terminated = [rank for rank in died if exit_codes.get(rank) == -signal.SIGTERM]
        self.failures = {
            rank: DIED for rank in died if rank not in terminated or len(terminated) == len(died)
        }

    def _end(self, rank: int, answer: dict[str, Any] | None, exit_code: int) -> RankEnd:
        failure = self.failures.get(rank, ENDED if answer is None else None)
        if answer is not None:  # its answer may have come while its stack was written
            failure = RAISED if answer["outcome"] in FAILURES and failure is not None else None
        if failure is None:
            return RankEnd(rank, answer)
        place = self._places.get(rank, "")
        reason = ""
        if failure == DIED:
            reason = f"its process {end_text(exit_code)} before its test did"
        elif failure == HUNG:
            reason = self._hang_text(rank, place)
        return RankEnd(
            rank,
            answer,
            failure=failure,
            number=list(self.failures).index(rank) if rank in self.failures else 0,
            waits=is_in_collective(place),
            reason=reason,
            output=self._files[rank].last_lines(),
        )

    def _hang_text(self, rank: int, place: str) -> str:
        assert self._overrun is not None
        what = "finish" if self._files[rank].has_begun() else "begin its test"
        return hang_text(self._overrun, place, what)

    def _overrun_of_silent(self) -> Overrun | None:
        if not self._have_begun and all(files.has_begun() for files in self._files.values()):
            self._have_begun = True
            self._watches = self._watched(self._timeout)
        answers = self.answers()
        late = (watch.look() for rank, watch in self._watches.items() if rank not in answers)
        return next((overrun for overrun in late if overrun is not None), None)

    def _watched(self, limit: float) -> dict[int, Watch]:
        return {rank: Watch(files.pid, limit) for rank, files in self._files.items()}


def _is_gone(pid: int | None) -> bool:
    """Whether this child has ended, without reaping it: its status stays for ``wait``."""
    if pid is None:
        return False
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # it was reaped already
        return True
