"""Progress while tests are estimated: one line, rewritten on a terminal, else printed every ten seconds."""

from __future__ import annotations

import time
from types import TracebackType

import pytest

from ..reporting.terminal.fitting import folded

#: Seconds between two lines where lines cannot be rewritten.
_INTERVAL = 10.0


class ProgressLine:
    """Shows which of ``total`` tests is being estimated; nothing without a terminal reporter."""

    def __init__(self, config: pytest.Config, total: int) -> None:
        self._config = config
        self._reporter = config.pluginmanager.getplugin("terminalreporter")
        self._quiet = self._reporter is None or config.get_verbosity() < 0 or not total
        self._rewrites = not self._quiet and bool(getattr(self._reporter, "isatty", False))
        self._total = total
        self._printed = 0.0
        self._began = time.monotonic()

    def __enter__(self) -> ProgressLine:
        if not self._quiet and not self._rewrites:
            tests = "test" if self._total == 1 else "tests"
            self._reporter.write_line(f"membudget: estimating {self._total} {tests}")
            self._printed = time.monotonic()
        return self

    def step(self, number: int, total: int, nodeid: str) -> None:
        """Test ``number`` of ``total`` is next."""
        text = f"membudget: estimating {number}/{total} "
        if self._rewrites:
            # a line that wraps is not erased as a whole
            room = self._config.get_terminal_writer().fullwidth - 1 - len(text)
            shown = nodeid if len(nodeid) <= room else f"…{nodeid[1 - room :] if room > 1 else ''}"
            self._reporter.rewrite(text + shown, erase=True)
        elif not self._quiet and time.monotonic() - self._printed > _INTERVAL:
            for line in folded([text + nodeid], self._config.get_terminal_writer().fullwidth):
                self._reporter.write_line(line)
            self._printed = time.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._rewrites:
            seconds = time.monotonic() - self._began
            self._reporter.rewrite(f"membudget: {self._total} estimated in {seconds:.1f} s", erase=True)
            self._reporter.write_line("")
