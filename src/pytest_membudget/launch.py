"""Starts a worker process and talks to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import WorkerFailure
from .protocol import Channel

#: The worker sees the session's own import path before it imports anything.
_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from pytest_membudget.worker.__main__ import main; main(int(sys.argv[2]), int(sys.argv[3]))"
)
#: Seconds that the worker's own time limit gets to work before this side gives up on the worker.
_GRACE = 30.0
#: Bytes of a worker's output that a failure tells.
_TAIL_BYTES = 2000


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker is started for: the session to repeat, and the files to collect in it."""

    args: Sequence[str]
    """pytest's command line."""
    dir: str
    """The folder that pytest was started in."""
    files: Sequence[str]
    gpu: str
    """The card that is there while modules are imported."""
    timeout: float
    """Seconds for the start, and for each test."""


class Worker:
    """A worker process; used as a context manager, or closed by ``close``."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._process, self._channel = _start(self._output)
        self.imported_bytes = 0
        try:
            self._channel.send(
                {"args": list(order.args), "dir": order.dir, "files": list(order.files), "gpu": order.gpu}
            )
            self.imported_bytes = self._receive("starting")["imported_bytes"]
        except BaseException:
            self.close()
            raise

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to ``request``, which names one test.

        Raises ``WorkerFailure`` if the worker itself is lost: then start another one.
        """
        try:
            self._channel.send({**request, "timeout": self._order.timeout})
        except BrokenPipeError:
            raise WorkerFailure(self._lost("the worker was gone")) from None
        return self._receive(f"estimating {request['nodeid']}")

    def close(self) -> None:
        """End the process, whatever it does."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._channel.close()
        self._output.close()

    def output_tail(self) -> str:
        """The last of what the worker, and the tests in it, have printed."""
        size = self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, size - _TAIL_BYTES))
        return self._output.read().decode(errors="replace").strip()

    def _receive(self, doing: str) -> dict[str, Any]:
        try:
            message = self._channel.receive(self._order.timeout + _GRACE)
        except TimeoutError:
            limit = f"{self._order.timeout:g} s ([tool.membudget] timeout)"
            raise WorkerFailure(self._lost(f"the worker did not answer within {limit} while {doing}")) from None
        if message is None:
            self._process.wait()
            status = self._process.returncode
            raise WorkerFailure(self._lost(f"the worker ended with status {status} while {doing}"))
        if message["event"] == "failed":
            raise WorkerFailure(message["reason"])
        return message

    def _lost(self, what: str) -> str:
        tail = self.output_tail()
        return f"{what}; its last output:\n{tail}" if tail else what


def _start(output: Any) -> tuple[subprocess.Popen[bytes], Channel]:
    read_orders, write_orders = os.pipe()
    read_answers, write_answers = os.pipe()
    path = [os.path.abspath(entry) for entry in sys.path]
    command = [sys.executable, "-c", _BOOT, json.dumps(path), str(read_orders), str(write_answers)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        pass_fds=(read_orders, write_answers),
    )
    os.close(read_orders)
    os.close(write_answers)
    return process, Channel(read_answers, write_orders)
