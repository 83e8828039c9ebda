"""Time limits by the processor time of a process tree, so that a busy machine does not end a running test."""

import os
import time
from dataclasses import dataclass
from typing import Final, NamedTuple

#: A process with a smaller share of a processor, over its whole limit, is considered to be waiting.
_LEAST_SHARE: Final = 0.05
#: A limit of one second is then reached after at most so many seconds of the clock.
LONGEST: Final = 1 / _LEAST_SHARE
#: What it is taken to have used of a processor where it wants one and gets none: at half of the checks, as it
#: does not wait then.
_WANTED_SHARE: Final = 2 * _LEAST_SHARE
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
        self._began = self._looked_at = time.monotonic() if began is None else began
        #: the processor time at the last check; the first check reads what was used before
        self._used: float | None = None
        #: seconds that count: the processor time used, at most one second for each second of the clock
        self._counted = 0.0
        #: the last time at which it was known not to be waiting, what had counted then, and the seconds since
        #: that it has used or wanted
        self._marked_at, self._marked, self._wanted = self._looked_at, 0.0, 0.0

    def wait_seconds(self) -> float:
        """Seconds until the next check."""
        return max(0.0, self._looked_at + self._limit / _LOOKS - time.monotonic())

    def look(self) -> Overrun | None:
        """Why the process is over its limit; None if it is within, or the next check is later."""
        if self.wait_seconds():
            return None
        return self.check(time.monotonic(), *usage(self._pid))

    def check(self, now: float, used: float, wants: bool = False) -> Overrun | None:
        """Why the process, which has ``used`` so many seconds until ``now``, is over its limit, if it is.

        ``wants``: it runs now, or would if a processor were free.
        """
        if self._used is not None:
            passed = now - self._looked_at
            gained = min(passed, max(0.0, used - self._used))
            self._counted += gained
            self._wanted += max(gained, passed * _WANTED_SHARE * wants)
        self._looked_at, self._used = now, used
        if self._wanted >= self._limit * _LEAST_SHARE:
            self._marked_at, self._marked, self._wanted = now, self._counted, 0.0
        if self._counted >= self._limit:
            return Overrun(self._limit, self._counted)
        if now - self._began > self._limit * LONGEST:
            return Overrun(self._limit * LONGEST, self._counted)
        waits = now - self._marked_at > self._limit
        return Overrun(self._limit, self._counted - self._marked) if waits else None


def usage(pid: int) -> tuple[float, bool]:
    """Processor time of process ``pid``, its group and its descendants, including ended and reaped ones.

    And whether a thread of these runs, or would if a processor were free. ``proc_pid_stat(5)``, man-pages 6.
    """
    found = _tree(pid)
    threads = (f"{stat.pid}/task/{thread}" for stat in found for thread in _listed(f"{stat.pid}/task"))
    wants = any(stat.state == b"R" for thread in threads if (stat := _stat(thread)) is not None)
    return sum(stat.seconds for stat in found), wants


def _tree(pid: int) -> list["_Stat"]:
    """Process ``pid``, its group and its descendants."""
    found = [stat for name in _listed("") if name.isdigit() and (stat := _stat(name)) is not None]
    started: dict[int, list[_Stat]] = {}
    for stat in found:
        started.setdefault(stat.parent, []).append(stat)
    seen: dict[int, _Stat] = {}
    to_see = [stat for stat in found if pid in (stat.pid, stat.group)]
    while to_see:
        stat = to_see.pop()
        if stat.pid not in seen:
            seen[stat.pid] = stat
            to_see += started.get(stat.pid, [])
    return list(seen.values())


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(f"{_PROC}/{folder}")
    except OSError:  # it is gone
        return []


class _Stat(NamedTuple):
    pid: int
    parent: int
    group: int
    state: bytes
    seconds: float


def _stat(name: str) -> _Stat | None:
    """The state and times of process or thread ``name``; None if it is gone."""
    try:
        with open(f"{_PROC}/{name}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()  # a process name may contain both
        times = sum(map(int, fields[_TIMES]))
        return _Stat(int(name.rpartition("/")[2]), int(fields[1]), int(fields[2]), fields[0], times / _TICKS)
    except (OSError, ValueError, IndexError):
        return None
