"""Runs one test on a worker's device: setup, call and teardown by pytest's runner, then its answer."""

from __future__ import annotations

import math
import pickle
import resource
import threading
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ....atomic_files import replacing
from ....caveats import SKIPPED_PART, caveats_of
from ....devices.contract import Device
from ....hardware.gpus import find_gpu
from ....results.body_warning import BodyWarning
from ....tracking.running_code.source import is_own
from ...protocol import Request
from .caveats import Caveats
from .multi_process_tests import start_no_processes

#: The newest that PyTorch's viewer reads (``unpickle`` in torch/utils/viz/MemoryViz.js, 2.13).
_PICKLE_PROTOCOL = 4


class ItemRun:
    """Runs ``item`` once, as a plugin of its session, and makes the answer of its phases and the report."""

    def __init__(self, item: pytest.Item, device: Device, request: Request, caveats: Caveats) -> None:
        self._item = item
        self._device = device
        self._request = request
        self._caveats = caveats
        self._is_calling = False
        #: the answer of the first failure or skip
        self._trouble: dict[str, Any] | None = None
        self._snapshot: dict[str, Any] = {}
        #: why parts of the test, its subtests, were skipped
        self._skipped_parts: list[str] = []
        self._warnings: list[BodyWarning] = []

    def run(self) -> dict[str, Any]:
        """The answer: ``traced``, or ``out_of_memory``, ``skipped`` or ``error`` with the reason."""
        request = self._request
        gpu, is_named = find_gpu(request["gpu"]), request["limited"]
        self._caveats.begin(gpu, str(self._item.config.rootpath), is_named=is_named or self._device.is_there)
        self._device.begin(gpu, limited=is_named, **_place_in(request))
        start_no_processes(self._item)
        self._item.config.pluginmanager.register(self)
        with self._threads_watched():
            try:
                self._item.config.hook.pytest_runtest_protocol(item=self._item, nextitem=None)
            except (KeyboardInterrupt, pytest.exit.Exception) as error:  # pytest makes no report of these
                self._note("the test", pytest.ExceptionInfo.from_exception(error))
        with without_soft_limit():
            report = self._measure()
        outcome = self._trouble or self._caught_refusal() or {"outcome": "traced"}
        properties = [(str(name), _plain(value)) for name, value in self._item.user_properties]
        found = {
            "report": report,
            "device": self._device.name,
            "properties": properties,
            "warnings": [one.to_json() for one in self._warnings],
        }
        return {**found, **self._representatives(outcome), **self._snapshot, **outcome}

    def _representatives(self, outcome: dict[str, Any]) -> dict[str, Any]:
        """After rank 0's run: which other ranks must run, and what is assumed of the rest."""
        place = _place_in(self._request)
        if not place or place["rank"] != 0 or outcome["outcome"] != "traced":
            return {}
        device = self._device
        return {
            "representatives": device.representative_ranks(),
            "rank_caveats": [one.to_json() for one in device.rank_caveats()],
            "broadcasts": device.broadcasts(),
        }

    def _caught_refusal(self) -> dict[str, Any] | None:
        """The answer if the test caught an error that only the stand-in raises: it ran other code."""
        refused = self._device.refused()
        if not refused:
            return None
        reason = (
            f"{refused[0]}. The test caught this error, which a run on a GPU does not raise: what followed "
            "is not what would run there"
        )
        return {"outcome": "error", "reason": reason}

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
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Handle the end of a phase, or of a part of the call; the first failure is reported."""
        report = yield
        if self._is_calling:
            self._part_ended(call)
        else:
            self._phase_ended(call, report)
        return report

    def _phase_ended(self, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
        if call.when == "call":
            self._device.body_ended()
        if call.excinfo is not None:
            self._note(call.when, call.excinfo)
        elif report.failed and self._trouble is None:  # a plugin has made the report fail
            self._trouble = {
                "outcome": "error",
                "reason": f"it failed in {call.when} on {self._device.name}\n{report.longreprtext}",
                "raised": True,
            }

    def _part_ended(self, call: pytest.CallInfo[None]) -> None:
        if call.excinfo is None:
            return
        if isinstance(call.excinfo.value, pytest.skip.Exception):
            self._skipped_parts.append(
                f"a part of the test was skipped ({call.excinfo.value.msg}): what it takes is not counted"
            )
        else:
            self._note(call.when, call.excinfo)

    def _measure(self) -> dict[str, Any]:
        root = str(self._item.config.rootpath)
        outcome = (self._trouble or {}).get("outcome")
        found = self._caveats.found(ended_by_oom=outcome == "out_of_memory")
        report = self._device.end(metric=self._request["metric"], root=root)
        skipped = caveats_of(SKIPPED_PART, self._skipped_parts)
        if self._request["snapshot"] is not None:
            self._snapshot = write_snapshot(Path(self._request["snapshot"]), self._device.snapshot())
        return replace(report, caveats=(*report.caveats, *found, *skipped)).to_json()

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


def write_snapshot(path: Path, snapshot: dict[str, Any] | None) -> dict[str, Any]:
    """Write ``snapshot`` to ``path`` atomically, and make its folder. None: no file should be there.

    Returns a part of the answer: ``has_snapshot``, and in ``snapshot_error`` why it could not be written. An
    error does not fail the test, and leaves the file of an earlier run.
    """
    try:
        if snapshot is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as file:
                pickle.dump(snapshot, file, protocol=_PICKLE_PROTOCOL)
        elif path.parent.is_dir():
            path.unlink(missing_ok=True)  # an earlier run's
    except OSError as error:
        return {"has_snapshot": False, "snapshot_error": f"{error.strerror or error}: {path.parent}"}
    return {"has_snapshot": snapshot is not None}


def _place_in(request: Request) -> dict[str, Any]:
    """``rank`` and ``world_size`` of a test that runs as one of several ranks, and what rank 0 broadcast."""
    if request.get("world_size", 1) == 1:
        return {}
    return {name: request[name] for name in ("rank", "world_size", "rank0_broadcasts")}


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
