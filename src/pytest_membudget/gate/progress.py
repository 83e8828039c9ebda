"""Progress while tests are estimated: one line, rewritten on a terminal, else printed every ten seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import pytest

from ..reporting.terminal.fitting import folded

#: Seconds between two lines where lines cannot be rewritten.
_INTERVAL = 10.0
#: Called before each estimate with its number, the number of estimates, and the test.
Progress: TypeAlias = Callable[[int, int, str], None]


@contextmanager
def progress_line(config: pytest.Config, total: int) -> Iterator[Progress]:
    """Shows which of ``total`` tests is being estimated; nothing without a terminal reporter."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if reporter is None or config.get_verbosity() < 0 or not total:
        yield lambda number, total, nodeid: None
        return
    began = printed = time.monotonic()
    rewrites = bool(getattr(reporter, "isatty", False))

    def step(number: int, total: int, nodeid: str) -> None:
        nonlocal printed
        text, width = f"membudget: estimating {number}/{total} ", config.get_terminal_writer().fullwidth
        if rewrites:
            room = width - 1 - len(text)  # a line that wraps is not erased as a whole
            shown = nodeid if len(nodeid) <= room else f"…{nodeid[1 - room :] if room > 1 else ''}"
            reporter.rewrite(text + shown, erase=True)
        elif time.monotonic() - printed > _INTERVAL:
            for line in folded([text + nodeid], width):
                reporter.write_line(line)
            printed = time.monotonic()

    if not rewrites:
        reporter.write_line(f"membudget: estimating {total} {'test' if total == 1 else 'tests'}")
    try:
        yield step
    finally:
        if rewrites:
            seconds = time.monotonic() - began
            reporter.rewrite(f"membudget: {total} estimated in {seconds:.1f} s", erase=True)
            reporter.write_line("")
