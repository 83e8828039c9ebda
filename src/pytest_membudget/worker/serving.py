"""The plugin that makes a pytest session serve single tests instead of running them all."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import pytest

from ..protocol import Channel
from .item_run import ItemRun
from .jail import run_in_child
from .quiet import silence

#: Under this name the session knows that it is a worker's.
NAME = "membudget-worker"


class ServingPlugin:
    """Collects the given files, then runs each asked-for item in a child process of its own.

    A child an item: what a test leaves behind, cached blocks and changed modules included, is not there
    for the next; a crash or a hang ends the child alone. The device, the imports and the collection are
    there once.
    """

    #: pluggy registers the object under this name
    __name__ = NAME

    def __init__(self, channel: Channel, device: Any, files: Sequence[str]) -> None:
        self._channel = channel
        self._device = device
        self._files = list(files)
        self._collection_errors: dict[str, str] = {}
        self._current: ItemRun | None = None
        self.served = False
        self.trouble = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Be quiet, and collect what was asked for."""
        silence(config.option)
        config.args = list(self._files)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember why a file could not be collected."""
        if report.failed or report.skipped:
            self._collection_errors[report.nodeid] = str(report.longrepr)

    def pytest_internalerror(self, excrepr: object) -> None:
        """Remember what went wrong inside pytest or a plugin."""
        self.trouble = str(excrepr)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Answer requests until the other end closes."""
        self.served = True
        items = {item.nodeid: item for item in session.items}
        self._channel.send({"event": "ready", "imported_bytes": self._device.imported_bytes()})
        while (request := self._channel.receive()) is not None:
            item = items.get(request["nodeid"])
            answer = self._run(item, request) if item is not None else self._not_found(request["nodeid"])
            self._channel.send({"event": "result", "nodeid": request["nodeid"], **answer})
        return True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Hand each phase of the running item to its run."""
        report = yield
        if self._current is not None:
            self._current.phase_ended(call)
        return report

    def _run(self, item: pytest.Item, request: dict[str, Any]) -> dict[str, Any]:
        def body() -> dict[str, Any]:
            self._current = ItemRun(item, self._device, request)
            return self._current.run()

        return run_in_child(body, request["timeout"])

    def _not_found(self, nodeid: str) -> dict[str, Any]:
        path = nodeid.partition("::")[0]
        for collected, error in self._collection_errors.items():
            if collected == path or nodeid.startswith(collected + "::"):
                return {"outcome": "error", "reason": f"{path} could not be collected in the worker:\n{error}"}
        return {
            "outcome": "error",
            "reason": "the worker did not collect this test: its collection must not depend on the process "
            "it runs in (random parameters, a different working folder, a missing GPU that it checks for)",
        }
