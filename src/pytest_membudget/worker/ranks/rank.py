"""RankPlugin: makes a pytest session serve the one test of a rank, inside a process group."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch.distributed as dist

from ...devices.contract import Device
from ..process_end import flush_output, leave
from ..protocol import Channel
from ..server.serving import ServingPlugin
from ..server.stack_dump import dump_stack_on_signal
from ..time_limit import LONGEST
from .own_group import accept_own_group

#: Seconds that collectives wait in addition to the test's time limit, which should end the test first.
_SLACK = 60.0


class RankPlugin(ServingPlugin):
    """Runs the test in this process, as the rank that the environment names.

    It stays after its answer, with its connections, so that no other rank fails because of it.
    """

    def __init__(self, channel: Channel, device: Device, order: Mapping[str, Any], observer: Any) -> None:
        super().__init__(channel, device, order, observer)
        self._backend: str = order["backend"]
        self._timeout: float = order["timeout"]
        self._pid = os.getpid()
        #: when it failed; comparable among processes of one machine
        self._failed_at: float | None = None
        self._stack_file = Path(order["stack_file"])
        dump_stack_on_signal(self._stack_file)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record when it failed: its teardown may destroy the process group, and then others fail."""
        if report.failed and self._failed_at is None:
            self._failed_at = time.monotonic()

    def _card(self) -> dict[str, Any]:
        return {}  # the session does not need it

    def _run(self, item: pytest.Item, request: dict[str, Any]) -> dict[str, Any]:
        threading.Thread(target=self._end_with_session, daemon=True).start()
        try:
            limit = timedelta(seconds=self._timeout * LONGEST + _SLACK)
            dist.init_process_group(self._backend, timeout=limit)
            accept_own_group()
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            reason = f"the process group could not be formed ({what})"
            return {"outcome": "error", "reason": reason, "is_last": True}
        flush_output()
        # output from here on is the test's: it may print before the session reads this
        self._channel.send({"event": "begun", "printed_bytes": os.fstat(1).st_size})
        answer = self._body(item, request)
        if os.getpid() != self._pid:  # in a process that the test has forked
            leave(0)
        if answer.get("report"):
            answer["report"]["rank"] = int(os.environ["RANK"])
        return {**answer, "failed_at": self._failed_at or time.monotonic(), "is_last": True}

    def _end_with_session(self) -> None:
        """Kill this process and all that it has started when the session is gone; it sends nothing more."""
        with contextlib.suppress(OSError):  # the test has closed the pipe
            while self._channel.receive() is not None:
                pass
            shutil.rmtree(self._stack_file.parent, ignore_errors=True)  # of all ranks: the session was killed
            os.killpg(0, signal.SIGKILL)

    def _leave(self) -> NoReturn:
        while True:  # until the session ends it
            signal.pause()
