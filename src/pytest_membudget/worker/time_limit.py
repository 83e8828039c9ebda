"""Time limits by the processor time of a process tree, so that a busy machine does not end a running test."""

import os
import time
from dataclasses import dataclass
from typing import Final, NamedTuple

#: A process with a smaller share of a processor, over its whole limit, is considered to be waiting.
_LEAST_SHARE: Final = 0.05
#: A limit of one second is then reached after at most so many seconds of the clock.
LONGEST: Final = 1 / _LEAST_SHARE
#: Checks of a process within its limit; each takes milliseconds, as it reads the times of all processes.
_LOOKS: Final = 60
_PROC: Final = "/proc"
#: utime, stime, cutime and cstime are fields 14 to 17, of which the third is the first after the name.
_TIMES: Final = slice(11, 15)
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_LIMIT: Final = "the time limit is [tool.membudget] timeout, in seconds"


@dataclass(frozen=True, slots=True)
class Overrun:
    """A process is over its time limit."""

    limit: float
    processor_seconds: float
    """The processor time used, in all or while it waited."""

    @property
    def is_waiting(self) -> bool:
        """Whether it uses hardly any processor time: it sleeps, or waits for a lock, a process or a file."""
        return self.processor_seconds < self.limit

    def text(self, what: str = "finish", *, at: str = "") -> str:
        """The message that it did not ``what`` within the limit, and at which line it was."""
        end = f"{at and f', at {at}'} ({_LIMIT})"
        if not self.is_waiting:
            return f"it did not {what} within {self.limit:g} s of processor time{end}"
        used = f"{self.processor_seconds:.1f} s of processor time"
        return f"it did not {what} within {self.limit:g} s, and used {used} in them: it waits{end}"


class Watch:
    """Checks a process, its group and its descendants regularly against a time limit."""

    def __init__(self, pid: int, limit: float, began: float | None = None) -> None:
        """``began``: as of ``time.monotonic``; None: now."""
        self._pid = pid
        self._limit = limit
        self._looked_at = time.monotonic() if began is None else began
        #: the processor time at the last check; the first check reads what was used before
        self._used: float | None = None
        #: seconds that count: the processor time used, at most one second for each second of the clock
        self._counted = 0.0
        #: the last time at which it was known not to be waiting, and what had counted then
        self._marked_at, self._marked = self._looked_at, 0.0

    def wait_seconds(self) -> float:
        """Seconds until the next check."""
        return max(0.0, self._looked_at + self._limit / _LOOKS - time.monotonic())

    def look(self) -> Overrun | None:
        """Why the process is over its limit; None if it is within, or the next check is later."""
        return self.check(time.monotonic(), processor_seconds(self._pid)) if not self.wait_seconds() else None

    def check(self, now: float, used: float) -> Overrun | None:
        """Why the process, which has ``used`` so many seconds until ``now``, is over its limit, if it is."""
        if self._used is not None:
            self._counted += min(now - self._looked_at, max(0.0, used - self._used))
        self._looked_at, self._used = now, used
        if self._counted - self._marked >= self._limit * _LEAST_SHARE:
            self._marked_at, self._marked = now, self._counted
        if self._counted >= self._limit:
            return Overrun(self._limit, self._counted)
        waits = now - self._marked_at > self._limit
        return Overrun(self._limit, self._counted - self._marked) if waits else None


def processor_seconds(pid: int) -> float:
    """Processor time of process ``pid``, its group and its descendants, including ended and reaped ones.

    ``proc_pid_stat(5)``, man-pages 6.9.
    """
    found = [stat for name in os.listdir(_PROC) if name.isdigit() and (stat := _stat(name)) is not None]
    started: dict[int, list[_Stat]] = {}
    for stat in found:
        started.setdefault(stat.parent, []).append(stat)
    seen: dict[int, float] = {}
    to_see = [stat for stat in found if pid in (stat.pid, stat.group)]
    while to_see:
        stat = to_see.pop()
        if stat.pid not in seen:
            seen[stat.pid] = stat.seconds
            to_see += started.get(stat.pid, [])
    return sum(seen.values())


class _Stat(NamedTuple):
    pid: int
    parent: int
    group: int
    seconds: float


def _stat(name: str) -> _Stat | None:
    """The times of process ``name``; None if it is gone."""
    try:
        with open(f"{_PROC}/{name}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()  # a process name may contain both
        times = sum(map(int, fields[_TIMES]))
        return _Stat(int(name), int(fields[1]), int(fields[2]), times / _TICKS)
    except (OSError, ValueError, IndexError):
        return None
