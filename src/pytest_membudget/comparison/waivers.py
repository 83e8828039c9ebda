"""Waivers: tests that may be over budget, or grow, up to a ceiling and until a day."""

from __future__ import annotations

import datetime
import difflib
import fnmatch
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..budgets.settings import TABLE
from ..errors import UsageMistake
from ..results.comparison import EXPIRED, WAIVED, UnusedWaiver
from ..results.test_result import TestResult
from ..units import bytes_of_gib

_KEYS = ("test", "ceiling_gib", "reason", "expires")
_EXAMPLE = '{test = "tests/test_a.py::test_b", ceiling_gib = 44, reason = "…", expires = 2026-12-31}'


@dataclass(frozen=True, slots=True)
class Waiver:
    """One entry of ``waivers`` in ``[tool.membudget]``."""

    test: str
    """A node id, or a pattern with ``*`` and ``?``."""
    ceiling_gib: float
    """What the test may take, GiB, whatever its budget says."""
    reason: str
    expires: datetime.date
    """The last day on which it holds."""

    @property
    def ceiling_bytes(self) -> int:
        """``ceiling_gib`` in bytes."""
        return bytes_of_gib(self.ceiling_gib)

    def covers(self, nodeid: str) -> bool:
        """Whether it is for the test ``nodeid``; brackets of parameters are literal."""
        return nodeid == self.test or fnmatch.fnmatchcase(nodeid, self.test.replace("[", "[[]"))

    def has_expired(self, today: datetime.date) -> bool:
        """Whether its last day is over."""
        return today > self.expires


def read_waivers(where: str, written: object) -> tuple[Waiver, ...]:
    """The waivers as ``[tool.membudget]`` of the file ``where`` has them.

    Raises ``UsageMistake`` naming the file, the key, the value as written and what to write instead.
    """
    if written is None:
        return ()
    place = f"{where}: {TABLE} waivers"
    if not isinstance(written, Sequence) or isinstance(written, (str, bytes)):
        raise UsageMistake(f"{place} = {written!r}: write a list, as in waivers = [{_EXAMPLE}]")
    return tuple(_read(f"{place}[{number}]", entry) for number, entry in enumerate(written))


def waiver_for(nodeid: str, waivers: Iterable[Waiver]) -> Waiver | None:
    """The waiver of the test ``nodeid``: of several that which names it plainly, then the last to expire."""
    covering = [waiver for waiver in waivers if waiver.covers(nodeid)]
    return max(covering, key=lambda waiver: (waiver.test == nodeid, waiver.expires), default=None)


def unused_waivers(
    waivers: Iterable[Waiver], results: Iterable[TestResult], today: datetime.date, *, is_whole: bool
) -> tuple[UnusedWaiver, ...]:
    """The waivers that no test needed, each with the reason.

    ``is_whole``: every test was run; a subset says nothing about waivers for tests that it has not run.
    """
    results = list(results)
    found = []
    for waiver in waivers:
        covered = [result for result in results if waiver.covers(result.nodeid)]
        needed = [result for result in covered if result.status in (WAIVED, EXPIRED)]
        if needed or not (covered or is_whole):
            continue
        expired = f"; it expired on {waiver.expires}" if waiver.has_expired(today) else ""
        why = "its test needs none" if covered else "there is no such test with a budget"
        found.append(UnusedWaiver(waiver.test, f"{why}{expired}; take it out of {TABLE} waivers"))
    return tuple(found)


def _read(place: str, entry: object) -> Waiver:
    if not isinstance(entry, Mapping):
        raise UsageMistake(f"{place} = {entry!r}: write a table, as in {_EXAMPLE}")
    for key in entry:
        if key not in _KEYS:
            near = difflib.get_close_matches(str(key), _KEYS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"the keys are {', '.join(_KEYS)}"
            raise UsageMistake(f"{place}.{key} = {entry[key]!r}: there is no key {key!r}; {hint}")
    missing = [key for key in _KEYS if key not in entry]
    if missing:
        raise UsageMistake(f"{place}: {', '.join(missing)} is missing; write {_EXAMPLE}")
    return Waiver(
        test=_text(f"{place}.test", entry["test"], "a node id, as in tests/test_a.py::test_b"),
        ceiling_gib=_size(f"{place}.ceiling_gib", entry["ceiling_gib"]),
        reason=_text(f"{place}.reason", entry["reason"], "why the test may take more"),
        expires=_day(f"{place}.expires", entry["expires"]),
    )


def _text(place: str, value: object, wanted: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UsageMistake(f"{place} = {value!r}: write {wanted}")
    return value


def _size(place: str, value: object) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 < value < math.inf:  # type: ignore[operator] # a number by now
        raise UsageMistake(f"{place} = {value!r}: write a number of GiB above 0, as in ceiling_gib = 44")
    return float(value)  # type: ignore[arg-type] # as above


def _day(place: str, value: object) -> datetime.date:
    if isinstance(value, datetime.datetime):
        return value.date()
    if isinstance(value, datetime.date):
        return value
    try:
        return datetime.date.fromisoformat(str(value))
    except ValueError:
        raise UsageMistake(f"{place} = {value!r}: write a day, as in expires = 2026-12-31") from None
