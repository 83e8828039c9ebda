"""The status of each test of a report, for every format: fails, changed or unchanged, and what to do."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..budgets.verdict import OVER, UNDECIDED, UNSET, WITHIN, Part, suggested_gib
from ..results.comparison import (
    COMPARED,
    GROWN,
    LOCK_FILE,
    NEW,
    NOT_COMPARABLE,
    PEAK,
    RAISE_COMMAND,
    SHRUNK,
    UNCHANGED,
    UPDATE_COMMAND,
    ComparedSession,
    versions_text,
)
from ..results.test_result import TestResult
from ..units import gib_text
from .causes import Cause, Code, difference_texts
from .document import Document

#: The question at a test that takes under 1% of its budget.
SMALL: Final = "is it what you train?"
FAILURE, WARNING, NOTICE, FINE = "failure", "warning", "notice", "fine"
#: The worst first.
LEVELS = (FAILURE, WARNING, NOTICE, FINE)

_GROWN_TOO_MUCH = (FAILURE, "grown too much")
_BY_STATUS = {
    GROWN: (NOTICE, "grown, and allowed"),
    NOT_COMPARABLE: (WARNING, NOT_COMPARABLE),
    SHRUNK: (NOTICE, SHRUNK),
    NEW: (NOTICE, NEW),
    UNCHANGED: (FINE, UNCHANGED),
}
_BY_VERDICT = {
    "over": (FAILURE, "over budget"),
    "undecided": (WARNING, "undecided"),
    "unset": (WARNING, "unset"),
    "error": (FAILURE, "not checked"),
    "skipped": (NOTICE, "skipped"),
    "within": (FINE, "within budget"),
}


@dataclass(frozen=True, slots=True)
class ReportedTest:
    """One test of a report with its status."""

    result: TestResult
    level: str
    """One of ``LEVELS``."""
    word: str
    """The status in a few words."""

    @property
    def peak_bytes(self) -> int | None:
        """The peak of the test's figure, in bytes."""
        return self.result.figure.peak_bytes if self.result.figure is not None else None

    @property
    def excess_bytes(self) -> int:
        """By how many bytes the peak is over the budget; 0 if it is within, or if there is none."""
        limit = self.result.limit_bytes
        return max(0, (self.peak_bytes or 0) - limit) if limit is not None else 0

    @property
    def has_changed(self) -> bool:
        """Whether it is new, or takes more or less than at the base, or cannot be compared."""
        result, comparison = self.result, self.result.comparison
        if comparison is None:
            return result.excused_until is not None
        is_new = result.verdict == OVER and comparison.allowed is None
        return bool(comparison.growth_bytes) or comparison.status != UNCHANGED or is_new

    @property
    def is_listed(self) -> bool:
        """Whether it is shown unfolded: it fails or has changed."""
        return self.level != FINE

    def explained(self, code: Code = str) -> str:
        """Its status in sentences; ``code`` escapes text that came from code."""
        result, status = self.result, self.result.status
        said = [text for text in (self._budget_text(code), self._growth_text(code)) if text]
        reason = result.comparison.reason if result.comparison is not None else ""
        if result.verdict == "error":
            said = [f"Its budget was not checked: {code(result.reason)}."]
        elif result.verdict == "skipped":
            said = [f"Its budget was not checked, the test is skipped: {code(result.reason)}."]
        elif result.verdict == UNSET:
            said.append(f"It has no limit{f': {code(result.lock.reason)}' if result.lock else ''}.")
        elif result.excused_until is not None and result.lock is not None:
            said.append(f"{self.word.capitalize()}: {code(result.lock.reason)}.")
        elif status == NOT_COMPARABLE and reason:
            said.append(f"{self.word.capitalize()}: {code(reason)}.")
        return " ".join(said)

    def _budget_text(self, code: Code) -> str:
        figure, limit = self.result.figure, self.result.limit_bytes
        if figure is None:
            return ""
        on_rank = f" on rank {figure.rank}" if len(self.result.estimates) > 1 else ""
        takes = f"Takes {gib_text(figure.peak_bytes)}{on_rank}"
        if self.excess_bytes and limit is not None:
            lock = f"what its entry in {LOCK_FILE} allows, {gib_text(limit)}"
            allowed = lock if self.result.has_outgrown_lock else f"its budget of {gib_text(limit)}"
            return f"{takes}, {gib_text(self.excess_bytes)} over {allowed}."
        if self.result.verdict == UNDECIDED:
            return f"{takes} by formulas; undecided: {code(self.result.reason)}."
        if self.result.verdict == "over":  # over by a component, by host memory or by another figure
            return f"{takes}: {code(self.result.reason)}."
        small = f" That is under 1%: {SMALL}" if self.result.is_small else ""
        return f"{takes} of its budget of {gib_text(limit)}.{small}" if limit is not None else f"{takes}."

    def _growth_text(self, code: Code) -> str:
        since = self.result.since_base
        if since is None or not since.growth_bytes:
            return ""
        word = "more" if since.growth_bytes > 0 else "less"
        versions = versions_text(since.distributions, code)
        return (
            f"That is {gib_text(abs(since.growth_bytes))} {word} than at the base "
            f"({gib_text(since.base_bytes or 0)}){versions and f', with {versions}'}."
        )

    def differences(self, code: Code = str) -> list[str]:
        """What its run does otherwise than at the base, a sentence each."""
        since = self.result.since_base
        return difference_texts(since, code) if since is not None else []

    def to_do(self, code: Code = str) -> str:
        """What to do about it; empty if nothing has to be done."""
        result, status = self.result, self.result.status
        if self.level == FINE:
            return ""
        if result.without_strict is not None:
            return " ".join(line.strip() for line in result.details.splitlines()[1:])
        if result.verdict == "error":
            return "Make its budget one that can be checked: a budget that was not is a failure."
        if result.has_outgrown_lock:
            place = self._place(code) if self.result.findings else ""
            return f"Undo the growth{place}, or allow it: {code(RAISE_COMMAND)}."
        if result.lock is not None and result.lock.is_outdated and self.level in (NOTICE, WARNING):
            return f"Update the lock file: {code(UPDATE_COMMAND)}."
        if self.word == UNDECIDED:
            return "Let a library run it (implementation: transformers, torchtitan or plain)."
        if self.word == "unset":
            return f"Set a limit: write {result.limit_to_write}."
        if status == SHRUNK:
            gib = result.budget.gib if result.budget is not None else None
            least = suggested_gib(self.peak_bytes or 0)
            pair = result.syntax.pair.format("gib", f"{least:g}")
            return f"The budget can be tightened to {pair}." if gib is not None and 0 < least < gib else ""
        if (self.level, self.word) == _GROWN_TOO_MUCH:
            allowing = f"a larger max_growth, or an entry in {LOCK_FILE} with until"
            return f"Undo the growth{self._place(code)}, or allow it: {allowing}."
        return self._allowing(code) if self.level == FAILURE else ""

    def _allowing(self, code: Code) -> str:
        """What to take off, or to write, where it is over its budget; empty where that is not known."""
        over, budget = self.result.over, self.result.budget
        if over is None:
            return ""
        is_card = not over.of and (budget is None or budget.gib is None)
        syntax = self.result.syntax
        value = syntax.text(_enough(self.result, over))
        limit = self.result.limit_to_write if not over.of else syntax.pair.format(over.argument, value)
        larger = "name a larger card" if is_card else f"write {limit}"
        off = " ".join(filter(None, (f"Take {gib_text(over.excess_bytes)} off", over.of)))
        return f"{off}{self._place(code)}, or {larger}."

    def _place(self, code: Code) -> str:
        since = self.result.since_base
        if since is not None and any(one.kind not in (PEAK, COMPARED) for one in since.differences):
            return ""  # no line has grown by itself
        line = next(([cause.location, *cause.details[1:]][-1] for cause in self.causes(1)), None)
        return f", first at {code(line)}" if line else ""

    def causes(self, most: int) -> list[Cause]:
        """The causes, the largest first: changes since the base, else who holds what is over, or the peak."""
        figure, over = self.result.figure, self.result.over
        holders = figure.holders if figure is not None else ()
        found = self.result.findings or (over.holders if over is not None else holders)
        return list(found[:most])


def reported_tests(document: Document) -> list[ReportedTest]:
    """The tests of ``document``: failing ones, then changed ones, then the others; each the worst first."""
    return sorted(map(_reported, document.tests), key=_order)


def _order(one: ReportedTest) -> tuple[bool, bool, int, int, str]:
    weight = max(one.excess_bytes, abs(one.result.growth_bytes))
    return one.level != FAILURE, not one.has_changed, LEVELS.index(one.level), -weight, one.result.nodeid


def is_notable(document: Document) -> bool:
    """Whether there is anything in ``document`` that a reader has to see.

    Where it is compared with a base, that is what fails or has changed: not what was so before.
    """
    tests, compared = reported_tests(document), document.comparison or ComparedSession()
    if compared.removed or compared.skipped:
        return True
    if compared.base:
        return any(one.level == FAILURE or one.has_changed for one in tests)
    return any(one.is_listed for one in tests)


def _reported(result: TestResult) -> ReportedTest:
    level, word = _BY_VERDICT[result.verdict]
    allowed = result.comparison.allowed if result.comparison is not None else None
    if result.excused_until is not None:
        what = OVER if result.verdict == OVER else GROWN
        level, word = NOTICE, f"{what} until {result.excused_until}"
    elif result.exceeds and (allowed is False or result.has_outgrown_lock):
        level, word = _GROWN_TOO_MUCH
    elif result.verdict == OVER and not result.exceeds:
        level, word = WARNING, "over since before"
    elif result.verdict == WITHIN and result.status is not None:
        level, word = _BY_STATUS[result.status]
    if level == FINE and result.lock is not None and result.lock.has_shrunk:
        level, word = NOTICE, SHRUNK
    if result.expected and level == FAILURE:
        level, word = FINE, f"{word} (expected)"
    return ReportedTest(result, level, word)


def headline(found: Sequence[ReportedTest]) -> str:
    """One line for all tests: how many fail, by status."""
    if not found:
        return "no test has a memory budget"
    failing = counted([one for one in found if one.level == FAILURE])
    tests = f"{len(found)} test{'s' if len(found) != 1 else ''}"
    if failing:
        return f"{failing}, of {tests}"
    open_ = counted([one for one in found if one.level == WARNING])
    return f"{tests}, none fails" + (f"; {open_}" if open_ else "")


def counted(some: Sequence[ReportedTest]) -> str:
    """How many of ``some`` have each status."""
    return ", ".join(f"{count} {word}" for word, count in Counter(one.word for one in some).items())


def legend(results: Iterable[TestResult]) -> Iterator[str]:
    """The line below a table that explains its asterisks; empty if there are none."""
    marked = [result for result in results if result.mark]
    if not marked:
        return
    unchecked = sum(bool(result.unchecked_caveats) for result in marked)
    failing = f"--membudget-strict fails {unchecked or 'none'} of these {len(marked)}"
    yield f"* data assumed or memory not modelled; {failing}"


def _enough(result: TestResult, part: Part) -> Any:
    """A value of the argument of ``part`` that is enough for ``result``."""
    gib = suggested_gib(part.bytes)
    written = int(gib) if gib == int(gib) else gib
    if part.argument != "components" or result.budget is None:
        return written
    return {**result.budget.components, part.of: written}
