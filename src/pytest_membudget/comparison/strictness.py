"""``--membudget-strict``: a test that would pass and was not checked is an error that says what to do."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ..budgets.verdict import ERROR, OVER, SKIPPED, UNDECIDED, UNSET, WITHIN
from ..caveats import outcomes_once
from ..results.comparison import LOCK_FILE, NEW, NOT_COMPARABLE, UPDATE_COMMAND
from ..results.test_result import TestResult

#: Most reasons that one test's message has; report.json has the rest.
_MOST: Final = 20
_SKIP_REMEDY: Final = "let it run: without a GPU a test with a budget runs on a device that is not there"
_UNDECIDED_REMEDY: Final = (
    "let a library run it: implementation: transformers, torchtitan or plain, or write a larger budget"
)
_LAST: Final = (
    f"Or give the test an entry in {LOCK_FILE} with until and reason, or leave --membudget-strict and "
    "strict = true out."
)


def unchecked_in(result: TestResult) -> Iterator[tuple[str, str]]:
    """What was not checked of ``result``, which passes without ``--membudget-strict``; and what to do."""
    if result.verdict == SKIPPED:
        yield result.reason, _SKIP_REMEDY
    elif result.verdict == UNDECIDED:
        yield result.reason, _UNDECIDED_REMEDY
    elif result.verdict == UNSET:
        remedy = f"write {result.limit_to_write}, or record its figure: {UPDATE_COMMAND}"
        yield result.reason, remedy
    elif result.verdict == ERROR and result.raised:  # an xfail mark may expect it
        yield result.reason, "let the test run to its end"
    elif result.verdict == WITHIN or (result.verdict == OVER and not result.exceeds):
        for caveat in result.unchecked_caveats:
            yield caveat.text, caveat.cause.remedy
        if result.lock is not None and result.lock.is_outdated:
            yield result.lock.reason, f"update the file: {UPDATE_COMMAND}"
        yield from _growth_unchecked(result)


def _growth_unchecked(result: TestResult) -> Iterator[tuple[str, str]]:
    """A ``max_growth`` that nothing was compared with; a new test has to keep to its ``gib`` then."""
    budget, comparison = result.budget, result.comparison
    if budget is None or budget.max_growth is None or comparison is None:
        return
    why = f"max_growth was not compared: {comparison.reason}"
    if comparison.status == NOT_COMPARABLE:
        yield why, "make the base comparable"
    elif comparison.status == NEW and budget.gib is None:
        yield why, f"write {result.limit_to_write} too, or compare from the next commit on"


def strictly(result: TestResult) -> TestResult:
    """``result`` with ``--membudget-strict`` applied. Its entry in the lock file may excuse it."""
    found = [*unchecked_in(result)]
    if not found:
        return result
    if result.verdict == ERROR:
        return replace(result, without_strict=ERROR)
    first, _ = found[0]
    if result.lock is not None and result.lock.allowed:
        return result
    more = f"; and {len(found) - 1} more" if len(found) > 1 else ""
    return replace(
        result,
        verdict=ERROR,
        reason=f"--membudget-strict: not checked: {first}{more}",
        details="\n".join(_details(found)),
        without_strict=result.verdict,
    )


def _details(found: list[tuple[str, str]]) -> Iterator[str]:
    yield "What was not checked, and what to do:"
    by_remedy: dict[str, list[str]] = {}
    for text, remedy in found[:_MOST]:
        by_remedy.setdefault(remedy or "run the test where it is known", []).append(text)
    for remedy, texts in by_remedy.items():
        yield from (f"  {text}" for text in outcomes_once(texts))
        yield f"    {remedy}"
    if len(found) > _MOST:
        yield f"  and {len(found) - _MOST} more; report.json has them all"
    yield _LAST
