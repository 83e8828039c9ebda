"""The end of a session: report.json, the budgets' section of the terminal summary, and notices."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ..budgets.settings import Settings
from ..results.comparison import ComparedSession
from .session_results import SessionResults
from .test_reports import failure_text


class Summary:
    """The output of a session when all tests are done."""

    def __init__(
        self, config: pytest.Config, settings: Settings, results: SessionResults, *, is_listing: bool
    ) -> None:
        """``is_listing``: no test runs, so failures are shown in the summary only."""
        self._config = config
        self._settings = settings
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
        from ..reporting.files.json_file import write_report

        try:
            path = write_report(
                folder,
                self._config.rootpath,
                self._results.in_order(),
                comparison=compared,
                testing=is_given,
                strict=self._settings.strict,
            )
        except OSError as error:
            self.add(f"membudget: the report could not be written: {error}", is_bad=True)
        else:
            self.add(f"report: {path}")
        reasons = (result.snapshot_error for result in self._results.in_order())
        for reason, count in Counter(filter(None, reasons)).items():
            text = f"membudget: {count} of the snapshots could not be written: {reason}"
            self.add(text, is_bad=True)

    def print_to(self, reporter: pytest.TerminalReporter) -> None:
        """The table; where no test runs, also the failures."""
        from ..reporting.terminal.console import disagreements, summary_lines
        from ..reporting.terminal.fitting import folded

        known = self._results
        results, unchecked, not_run = known.in_order(), known.unchecked(), known.not_run()
        without_memory = len(known.without_memory())
        if not (results or unchecked or not_run or without_memory or self._notices):
            return
        reporter.section("membudget: GPU memory budgets")
        if self._is_listing:
            for result in known.failing():
                reporter.line(f"{result.nodeid}\n{failure_text(result)}\n", red=True)
        terminal = self._config.get_terminal_writer()
        width = terminal.fullwidth
        for line in summary_lines(
            results,
            unchecked,
            known.notes(),
            len(not_run),
            width=width,
            paint=lambda text, colour: terminal.markup(text, **{colour: True}),
            is_verbose=self._config.get_verbosity() > 0,
        ):
            reporter.line(line)
        below = []
        if without_memory:
            tests = (
                "1 test without a mark takes"
                if without_memory == 1
                else (f"{without_memory} tests without a mark take")
            )
            below.append((f"{tests} no GPU memory: skipped", ""))
        for result in results:
            found = disagreements(result, self._settings.most_disagreement)
            below += [(f"disagreement: {text}", "yellow") for text in found]
        below += [(line, "") for line in _not_cached_lines(self._not_cached)]
        below += [(text, "red" if is_bad else "") for text, is_bad in self._notices]
        for text, colour in below:
            for line in folded([text], width):
                reporter.line(line, **{colour: True} if colour else {})


def _not_cached_lines(reasons: Mapping[str, str]) -> Iterator[str]:
    """One line for each reason, with the first of its tests."""
    for reason, count in sorted(Counter(reasons.values()).items()):
        first = min(test for test, why in reasons.items() if why == reason)
        more = f" and {count - 1} more" if count > 1 else ""
        yield f"estimated in every session ({reason}): {first}{more}"
