"""Time limits by the processor time of a process tree, so that a busy machine does not end a running test."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
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
_LIMIT: Final = "the time limit is --membudget-timeout, or [tool.membudget] timeout, in seconds"


@dataclass(frozen=True, slots=True)
class Overrun:
    """A process is over its time limit."""

    limit: float
    processor_seconds: float | None
    """The processor time used, in all or while it waited; None if the system does not report it."""

    @property
    def is_waiting(self) -> bool:
        """Whether it uses hardly any processor time: it sleeps, or waits for a lock, a process or a file."""
        return self.processor_seconds is not None and self.processor_seconds < self.limit

    def text(self, what: str = "finish", *, at: str = "") -> str:
        """The message that it did not ``what`` within the limit, and at which line it was."""
        place = at and f", at {at}"
        if self.processor_seconds is None:
            return f"it did not {what} within {self.limit:g} s{place} ({_LIMIT})"
        if not self.is_waiting:
            return f"it did not {what} within {self.limit:g} s of processor time{place} ({_LIMIT})"
        used = f"{self.processor_seconds:.1f} s"
        return (
            f"it did not {what} within {self.limit:g} s, and used {used} of processor time in them: "
            f"it waits{place} ({_LIMIT})"
        )


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of its time limit a process has used, by the checks so far."""

    limit: float
    counted: float
    """Seconds that count: the processor time used, at most one second for each second of the clock."""
    looked_at: float
    used: float | None
    """The processor time at the last check; None if it is not known."""
    marked_at: float
    """The last time at which it was known not to be waiting."""
    marked: float
    """``counted`` at that time."""

    @classmethod
    def begun(cls, limit: float, now: float) -> Progress:
        """The state of a process that begins ``now``; the first check reads its earlier processor time."""
        return cls(limit, 0.0, now, None, now, 0.0)

    def after(self, now: float, used: float | None) -> Progress:
        """The state after a check ``now`` with processor time ``used``, None if it is not known."""
        more = elapsed = now - self.looked_at
        if used is not None:
            more = 0.0 if self.used is None else min(elapsed, max(0.0, used - self.used))
        counted = self.counted + more
        later = replace(self, counted=counted, looked_at=now, used=used)
        if counted - self.marked < self.limit * _LEAST_SHARE:
            return later
        return replace(later, marked_at=now, marked=counted)

    @property
    def overrun(self) -> Overrun | None:
        """Why it is over its limit (processor time, or it waits); None if it is within."""
        if self.counted >= self.limit:
            return Overrun(self.limit, None if self.used is None else self.counted)
        if self.used is not None and self.looked_at - self.marked_at > self.limit:
            return Overrun(self.limit, self.counted - self.marked)
        return None


class Watch:
    """Checks a process, its group and its descendants regularly against a time limit."""

    def __init__(self, pid: int, limit: float) -> None:
        self._pid = pid
        self._progress = Progress.begun(limit, time.monotonic())

    def wait_seconds(self) -> float:
        """Seconds until the next check."""
        progress = self._progress
        return max(0.0, progress.looked_at + progress.limit / _LOOKS - time.monotonic())

    def look(self) -> Overrun | None:
        """Why the process is over its limit; None if it is within."""
        if self.wait_seconds() == 0:
            self._progress = self._progress.after(time.monotonic(), processor_seconds(self._pid))
        return self._progress.overrun


def processor_seconds(pid: int) -> float | None:
    """Processor time of process ``pid``, its group and its descendants, including ended and reaped ones.

    None without ``/proc`` (not on Linux). ``proc_pid_stat(5)``, man-pages 6.9.
    """
    try:
        names = os.listdir(_PROC)
    except OSError:
        return None
    found = [stat for name in names if name.isdigit() and (stat := _stat(name)) is not None]
    if not found:
        return None
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
    """One process."""

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
