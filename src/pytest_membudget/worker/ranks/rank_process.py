"""RankProcess: the session's connection to the worker of one rank."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...budgets.node_ids import name_of_rank
from ..client.order import Order, worker_environment
from ..client.process_start import WORKER_MODULE, end_process, start_process
from ..server.child_process import PIPE_WRITTEN
from ..server.one_test.output_file import OutputFile
from ..time_limit import Watch

#: Seconds to start processes and to form the process group, in addition to the limit for importing tests.
_START_GRACE = 30.0


class RankProcess:
    """A worker that runs one test as a rank, in its own process and not in a child of it."""

    def __init__(
        self,
        order: Order,
        request: Mapping[str, Any],
        rank: int,
        folder: Path,
        variables: Mapping[str, str],
    ) -> None:
        """``folder``: of the temporary files of all ranks. ``variables``: what a launcher sets."""
        self.rank = rank
        self.answer: dict[str, Any] | None = None
        #: whether its process group is ready and its test has begun
        self.has_begun = False
        #: where its process writes its stack when it is asked for it
        self.stack_file = folder / f"rank-{rank}.stack"
        scratch = folder / f"rank-{rank}"
        scratch.mkdir()
        self._output = OutputFile()
        self._process, self._channel = start_process(
            WORKER_MODULE, self._output.file, {**worker_environment(order, str(scratch)), **variables}
        )
        #: the time limit of its start, then of its test
        self.watch = Watch(self.pid, order.timeout + _START_GRACE)
        self._timeout = order.timeout
        snapshot = request["snapshot"] and name_of_rank(request["snapshot"], rank)
        self._request = {**request, "snapshot": snapshot, "number": rank}
        self._send({**order.to_json(), "scratch": str(scratch), "stack_file": str(self.stack_file)})

    @property
    def pid(self) -> int:
        """The pid of its process, which leads its own process group."""
        return self._process.pid

    @property
    def exit_code(self) -> int:
        """As of ``subprocess``, once ``has_died``."""
        return self._process.returncode

    def receive(self) -> None:
        """Read the messages that it has sent."""
        try:
            while self.answer is None and (message := self._channel.receive(0)) is not None:
                self._handle(message)
        except TimeoutError:
            return
        except ValueError:
            self.answer = {"outcome": "error", "reason": PIPE_WRITTEN}

    def _handle(self, message: Mapping[str, Any]) -> None:
        if message["event"] == "ready":
            self._send(self._request)
        elif message["event"] == "begun":
            self.has_begun = True
            self.watch = Watch(self.pid, self._timeout)
            self._output.forget(message["printed_bytes"])
        elif message["event"] in ("result", "failed"):
            self.answer = {"outcome": "error", **message}

    def _send(self, message: Mapping[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has ended, which ``has_died`` finds
            self._channel.send(message)

    def has_died(self) -> bool:
        """Whether its process has ended without an answer."""
        if self.answer is None and self._process.poll() is not None:
            self.receive()
            return self.answer is None
        return False

    def last_lines(self) -> str:
        """The end of the output of its test; before that has begun, of its process."""
        return self._output.last_lines()

    def end(self) -> None:
        """Kill its process and all that it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        end_process(self._process, self._channel)
        self._output.close()
