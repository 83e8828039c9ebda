"""What a session prints and writes: progress, and at its end the summary, report.json and the lock file."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from ..errors import UsageMistake
from ..reporting.files.json_file import write_report
from ..reporting.terminal.console import disagreement, summary_lines
from ..reporting.terminal.fitting import folded
from ..results.comparison import ComparedSession
from .lock_file import Locking
from .session_results import SessionResults
from .test_reports import failure_text

#: Seconds between two lines where lines cannot be rewritten.
_INTERVAL = 30.0
#: Called before each estimate with its number, and the test.
Progress: TypeAlias = Callable[[int, str], None]


@contextmanager
def progress_line(config: pytest.Config, total: int) -> Iterator[Progress]:
    """Shows which of ``total`` tests is being estimated; with ``-q`` where it takes long alone."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    verbosity = config.get_verbosity()
    if reporter is None or verbosity < -1 or not total:
        yield lambda number, nodeid: None
        return
    began = time.monotonic()
    if verbosity < 0 or not getattr(reporter, "isatty", False):
        if verbosity >= 0:
            reporter.write_line(f"membudget: estimating {total} {'test' if total == 1 else 'tests'}")
        with _lines(config, total, reporter.write_line) as step:
            yield step
        return

    def rewrite(number: int, nodeid: str) -> None:
        text, width = f"membudget: estimating {number}/{total} ", config.get_terminal_writer().fullwidth
        room = width - 1 - len(text)  # a line that wraps is not erased as a whole
        shown = nodeid if len(nodeid) <= room else f"…{nodeid[1 - room :] if room > 1 else ''}"
        reporter.rewrite(text + shown, erase=True)

    try:
        yield rewrite
    finally:
        reporter.rewrite(f"membudget: {total} estimated in {time.monotonic() - began:.1f} s", erase=True)
        reporter.write_line("")


@contextmanager
def _lines(config: pytest.Config, total: int, write: Callable[[str], None]) -> Iterator[Progress]:
    """Writes which test is being estimated, and for how long, every ``_INTERVAL`` seconds."""
    running: tuple[int, str, float] | None = None
    ended = threading.Event()

    def step(number: int, nodeid: str) -> None:
        nonlocal running
        running = number, nodeid, time.monotonic()

    def report() -> None:
        while not ended.wait(_INTERVAL):
            if running is not None:
                number, nodeid, since = running
                text = f"membudget: estimating {number}/{total} {nodeid} ({time.monotonic() - since:.0f} s)"
                for line in folded([text], config.get_terminal_writer().fullwidth):
                    write(line)

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield step
    finally:
        ended.set()
        thread.join()


class Summary:
    """The output of a session when all tests are done."""

    def __init__(self, config: pytest.Config, results: SessionResults, *, is_listing: bool) -> None:
        """``is_listing``: no test runs, so failures are shown in the summary only."""
        self._config = config
        self._results = results
        self._is_listing = is_listing
        self._notices: list[tuple[str, bool]] = []
        self._not_cached: dict[str, str] = {}

    def add(self, *texts: str, is_bad: bool = False) -> None:
        """Add ``texts`` to the end of the summary, each once. ``is_bad``: in red, also without a terminal."""
        notices = [(text, is_bad) for text in texts]
        self._notices += [notice for notice in notices if notice not in self._notices]

    def add_not_cached(self, trouble: str, reasons: Mapping[str, str]) -> None:
        """Report why no estimates could be cached, once for all processes, and why single ones cannot."""
        if trouble:
            self.add(f"membudget: estimates could not be kept for later sessions: {trouble}")
        self._not_cached.update(reasons)

    def print_without_terminal(self) -> None:
        """Print the bad notices where there is no summary."""
        if not self._config.pluginmanager.hasplugin("terminalreporter"):
            for text, is_bad in self._notices:
                if is_bad:
                    print(text, file=sys.stderr)

    def write_report(self, folder: Path, compared: ComparedSession | None, *, is_given: bool) -> None:
        """Write ``folder``/report.json, or report why not. ``is_given``: estimates were given."""
        try:
            path = write_report(
                folder,
                self._config.rootpath,
                self._results.in_order(),
                comparison=compared,
                testing=is_given,
            )
        except OSError as error:
            self.add(f"membudget: the report could not be written: {error}", is_bad=True)
        else:
            self.add(f"report: {path}")
        reasons = (result.snapshot_error for result in self._results.in_order())
        for reason, count in Counter(filter(None, reasons)).items():
            text = f"membudget: {count} of the snapshots could not be written: {reason}"
            self.add(text, is_bad=True)

    def update_lock(
        self, session: pytest.Session, locking: Locking, collected: Collection[str] | None
    ) -> None:
        """Write the lock file with ``--membudget-update``; the session fails if that is not possible.

        ``collected``: all tests with budgets; None if the session has not collected all.
        """
        if collected is not None:
            collected = {*collected} - {*self._results.without_memory()}
        try:
            self.add(*locking.finish(self._results.in_order(), collected))
        except UsageMistake as error:
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
            self.add(str(error), is_bad=True)

    def print_to(self, reporter: pytest.TerminalReporter) -> None:
        """The table, and what is below it; where no test runs, also the failures."""
        known = self._results
        results, not_run, below = known.in_order(), known.not_run(), [*self._below()]
        if not (results or known.skipped_files or not_run or below):
            return
        reporter.section("membudget: GPU memory budgets")
        if self._is_listing:
            for result in known.failing():
                reporter.line(f"{result.nodeid}\n{failure_text(result)}\n", red=True)
        terminal = self._config.get_terminal_writer()
        for line in summary_lines(
            results,
            skipped_files=known.skipped_files,
            not_run=not_run,
            width=terminal.fullwidth,
            paint=lambda text, colour: terminal.markup(text, **{colour: True}),
            is_verbose=self._config.get_verbosity() > 0,
        ):
            reporter.line(line)
        for text, markup in below:
            for line in folded([text], terminal.fullwidth):
                reporter.line(line, **markup)

    def _below(self) -> Iterator[tuple[str, dict[str, bool]]]:
        """The lines below the counts, and their colours."""
        without_memory = len(self._results.without_memory())
        if without_memory:
            tests = "test without a mark takes" if without_memory == 1 else "tests without a mark take"
            yield f"{without_memory} {tests} no GPU memory: skipped", {}
        for result in self._results.in_order():
            if text := disagreement(result):
                yield f"disagreement: {text}", {"yellow": True}
        for reason, count in sorted(Counter(self._not_cached.values()).items()):
            first = min(test for test, why in self._not_cached.items() if why == reason)
            more = f" and {count - 1} more" if count > 1 else ""
            yield f"estimated in every session ({reason}): {first}{more}", {}
        yield from ((text, {"red": True} if is_bad else {}) for text, is_bad in self._notices)
