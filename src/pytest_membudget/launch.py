"""Starts a worker process and talks to it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import WorkerFailure
from .process_end import end_text
from .protocol import Channel

#: The worker sees the session's own import path before it imports anything.
_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from pytest_membudget.worker.__main__ import main; main(int(sys.argv[2]), int(sys.argv[3]))"
)
#: Seconds that the worker's own time limit gets to work before this side gives up on the worker.
_GRACE = 30.0
#: Seconds that an idle or estimating worker gets to end by itself.
_FAREWELL = 2.0
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
    """A worker process; ended by ``close``."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._scratch = tempfile.mkdtemp(prefix="membudget-")
        self._process, self._channel = _start(self._output)
        self._collecting = False
        self.imported_bytes = 0
        try:
            self.imported_bytes = self._begin()
        except BaseException:
            self.close()
            raise

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to ``request``, which names one test.

        Raises ``WorkerFailure`` if the worker itself is lost: then start another one. So it must be after
        any other exception, for the answer is still to come.
        """
        try:
            self._channel.send({**request, "timeout": self._order.timeout})
        except BrokenPipeError:
            raise self._lost("the worker was gone") from None
        answer = self._receive(f"estimating {request['key']}")
        if answer["key"] != request["key"]:
            raise self._lost(f"the worker answered for {answer['key']}, which it was not asked for")
        return answer

    def close(self) -> None:
        """End the process, whatever it does, and the test that it runs."""
        self._channel.close()  # which ends it, and its test's process with it, if it listens
        try:
            self._process.wait(_FAREWELL)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._output.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _begin(self) -> int:
        order = {
            "args": list(self._order.args),
            "dir": self._order.dir,
            "files": list(self._order.files),
            "gpu": self._order.gpu,
            "scratch": self._scratch,
        }
        try:
            self._channel.send(order)
        except BrokenPipeError:
            raise self._lost("the worker was gone before it had begun") from None
        self._receive("starting the session")
        self._collecting = True
        imported_bytes: int = self._receive("importing the test files")["imported_bytes"]
        self._collecting = False
        return imported_bytes

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
            raise self._lost(f"the worker did not answer within {limit} while {doing}") from None
        if message is None:
            self._process.wait()
            raise self._lost(f"the worker {end_text(self._process.returncode)} while {doing}")
        if message["event"] == "failed":
            raise self._lost(message["reason"])
        return message

    def _lost(self, what: str) -> WorkerFailure:
        tail = self.output_tail()
        reason = f"{what}\nThe last of its output:\n{tail}" if tail else what
        return WorkerFailure(reason, collecting=self._collecting)


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
        start_new_session=True,  # Ctrl-C is for the session, which ends the worker
    )
    os.close(read_orders)
    os.close(write_answers)
    return process, Channel(read_answers, write_orders)
