"""One test on the virtual device: setup, call and teardown as pytest does them, and what came of it."""

from __future__ import annotations

from typing import Any

import pytest

from ..gpus import find_gpu


class ItemRun:
    """Runs ``item`` once and turns its phases and the device's ledger into a plain JSON answer."""

    def __init__(self, item: pytest.Item, device: Any, request: dict[str, Any]) -> None:
        self._item = item
        self._device = device
        self._request = request
        self._trouble: tuple[str, pytest.ExceptionInfo[BaseException]] | None = None
        self._report: Any = None

    def run(self) -> dict[str, Any]:
        """The answer: ``traced`` with the report, ``out_of_memory``, ``skipped`` or ``error`` with the reason."""
        request = self._request
        self._device.begin(find_gpu(request["gpu"]), limited=request["limited"])
        self._item.config.hook.pytest_runtest_protocol(item=self._item, nextitem=None)
        if self._report is None:  # no call phase: setup failed, or the test was skipped
            self._report = self._measure()
        return {"report": self._report, **self._outcome()}

    def phase_ended(self, call: pytest.CallInfo[None]) -> None:
        """One phase has ended; the first trouble is the one to tell."""
        if call.when == "call":
            self._report = self._measure()
        if call.excinfo is not None and self._trouble is None:
            self._trouble = (call.when, call.excinfo)

    def _measure(self) -> dict[str, Any]:
        root = str(self._item.config.rootpath)
        data: dict[str, Any] = self._device.end(metric=self._request["metric"], root=root).to_json()
        return data

    def _outcome(self) -> dict[str, Any]:
        if self._trouble is None:
            return {"outcome": "traced"}
        when, excinfo = self._trouble
        error = excinfo.value
        if isinstance(error, pytest.skip.Exception):
            return {"outcome": "skipped", "reason": str(error.msg)}
        from .failures import explain

        return explain(self._item, when, excinfo)
