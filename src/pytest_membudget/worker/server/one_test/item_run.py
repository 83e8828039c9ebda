"""Runs one test on a worker's device: setup, call and teardown by pytest's runner, then its answer."""

import gc
import math
import os
import pickle
import resource
import threading
import warnings
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from ....atomic_files import replacing
from ....budgets.verdict import OUT_OF_MEMORY
from ....caveats import SKIPPED_PART, caveats_of
from ....devices.real.device import Device
from ....devices.stand_in.ranks.launching import place_of, set_variables
from ....memory_report import MemoryReport
from ....results.answer import FAILED, TRACED, Answer, Request, failed
from ....results.body_warning import BodyWarning
from ....tracking.running_code.source import is_own
from .. import stack_dump
from .caveats import Caveats
from .multi_process_tests import start_no_processes

#: The newest that PyTorch's viewer reads (``unpickle`` in torch/utils/viz/MemoryViz.js, 2.13).
_PICKLE_PROTOCOL = 4
#: Reads that are named of a test that does not end.
_READS: Final = 3


class ItemRun:
    """Runs ``item`` once, as a plugin of its session, and makes the answer of its phases and the report."""

    def __init__(
        self,
        item: pytest.Item,
        device: Device,
        request: Request,
        caveats: Caveats,
        recording: AbstractContextManager[None],
    ) -> None:
        """``recording``: is entered while the test runs."""
        self._item = item
        self._recording = recording
        self._device = device
        self._request = request
        self._caveats = caveats
        self._is_calling = False
        #: the answer of the first failure or skip
        self._trouble: Answer | None = None
        #: whether there is a snapshot, and why it could not be written
        self._snapshot = (False, "")
        #: why parts of the test, its subtests, were skipped
        self._skipped_parts: list[str] = []
        self._warnings: list[BodyWarning] = []

    def run(self) -> Answer:
        """The answer: ``traced``, or ``out_of_memory``, ``skipped`` or ``error`` with the reason."""
        request = self._request
        self._caveats.begin(str(self._item.config.rootpath))
        if request.launched:
            set_variables(place_of(0, 1, os.environ), os.environ)
        self._device.begin(request)
        stack_dump.adding.append(lambda: self._device.reads(str(self._item.config.rootpath))[:_READS])
        start_no_processes(self._item)
        self._item.config.pluginmanager.register(self)
        with self._threads_watched(), self._recording:
            try:
                self._item.config.hook.pytest_runtest_protocol(item=self._item, nextitem=None)
            except (KeyboardInterrupt, pytest.exit.Exception) as error:  # pytest makes no report of these
                self._note("the test", pytest.ExceptionInfo.from_exception(error))
        gc.disable()  # the process ends with its answer
        with without_soft_limit():
            report = self._measure()
        has_snapshot, snapshot_error = self._snapshot
        return replace(
            self._device.completed(self._outcome()),
            reports=(report,),
            device=self._device.name,
            properties=tuple((str(name), _plain(value)) for name, value in self._item.user_properties),
            warnings=tuple(self._warnings),
            has_snapshot=has_snapshot,
            snapshot_error=snapshot_error,
        )

    def _outcome(self) -> Answer:
        """How the test ended: by an error if the stand-in refused what a card does, caught or not."""
        trouble, refused = self._trouble, self._device.refused()
        if not refused or (trouble is not None and trouble.outcome == FAILED and not trouble.raised):
            return trouble or Answer(TRACED)
        if trouble is not None and trouble.outcome == FAILED:  # not the test's, so no xfail mark expects it
            return replace(trouble, reason=f"{trouble.reason}\n{refused[0]}", raised=False)
        reason = (
            f"{refused[0]}. A run on a GPU has no such error, which the test may have caught: what followed "
            "is not what would run there"
        )
        return failed(reason)

    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage, when: str) -> None:
        """Collect what the test warns of; not what collection or our own code does."""
        if when == "runtest" and not is_own(warning_message.filename):
            self._warnings.append(BodyWarning.of(warning_message))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        """Note that the call phase runs: reports during it are of subtests."""
        self._is_calling = True
        try:
            return (yield)
        finally:
            self._is_calling = False

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Handle the end of a phase, or of a part of the call; the first failure is reported."""
        _show_least(item)
        report = yield
        if self._is_calling:
            self._part_ended(call)
        else:
            self._phase_ended(call, report)
        return report

    def _phase_ended(self, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
        if call.when == "call":
            self._device.body_ended(is_program=self._request.program is not None)
            self._caveats.body_ended()
        if call.excinfo is not None:
            self._note(call.when, call.excinfo)
        elif report.failed and self._trouble is None:  # a plugin has made the report fail
            reason = f"it failed in {call.when} on {self._device.name}\n{report.longreprtext}"
            self._trouble = failed(reason, raised=True)

    def _part_ended(self, call: pytest.CallInfo[None]) -> None:
        if call.excinfo is None:
            return
        if isinstance(call.excinfo.value, pytest.skip.Exception):
            self._skipped_parts.append(
                f"a part of the test was skipped ({call.excinfo.value.msg}): what it takes is not counted"
            )
        else:
            self._note(call.when, call.excinfo)

    def _measure(self) -> MemoryReport:
        root = str(self._item.config.rootpath)
        ended_by_oom = self._trouble is not None and self._trouble.outcome == OUT_OF_MEMORY
        found = self._caveats.found(ended_by_oom=ended_by_oom)
        records = self._request.snapshot is not None
        report = self._device.end(metric=self._request.metric, root=root, records=records)
        skipped = caveats_of(SKIPPED_PART, self._skipped_parts)
        if self._request.snapshot is not None:
            self._snapshot = write_snapshot(Path(self._request.snapshot), self._device.snapshot())
        return replace(report, caveats=(*report.caveats, *found, *skipped))

    def _note(self, when: str, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        from .failures import explain

        if self._trouble is None:
            self._trouble = explain(self._item, when, excinfo, self._device.name)

    @contextmanager
    def _threads_watched(self) -> Iterator[None]:
        """Fail if a thread died: pytest only warns, and what it would have allocated is missing."""
        previous = threading.excepthook

        def died(args: threading.ExceptHookArgs) -> None:
            if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
                self._note("a thread", pytest.ExceptionInfo.from_exception(args.exc_value))
            previous(args)

        threading.excepthook = died
        try:
            yield
        finally:
            threading.excepthook = previous


def _show_least(item: pytest.Item) -> None:
    """Pytest's text, which nobody reads, else takes a second, and reads the tensors that it shows."""
    option = item.config.option
    # what is no function has the native style only where it asks for it (``Node._repr_failure_py``)
    option.tbstyle = "native" if isinstance(item, pytest.Function) else "short"
    option.fulltrace = option.showlocals = False


def write_snapshot(path: Path, snapshot: dict[str, Any] | None) -> tuple[bool, str]:
    """Write ``snapshot`` to ``path`` atomically, and make its folder. None: no file should be there.

    Returns ``has_snapshot`` and ``snapshot_error`` of the answer: an error does not fail the test, and leaves
    the file of an earlier run.
    """
    try:
        if snapshot is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as file:
                pickle.dump(snapshot, file, protocol=_PICKLE_PROTOCOL)
        elif path.parent.is_dir():
            path.unlink(missing_ok=True)  # an earlier run's
    except OSError as error:
        return False, f"{error.strerror or error}: {path.parent}"
    return snapshot is not None, ""


@contextmanager
def without_soft_limit() -> Iterator[None]:
    """A context in which the address space is limited only by the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _plain(recorded: object) -> object:
    """The value of ``record_property`` if it is a JSON type, else its text, as in JUnit files."""
    is_finite = type(recorded) is not float or math.isfinite(recorded)
    is_plain = recorded is None or type(recorded) in (bool, int, float, str)
    return recorded if is_plain and is_finite else str(recorded)
