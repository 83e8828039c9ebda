"""Starts a worker process and talks to it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import WorkerFailure
from .process_end import end_text
from .process_start import start_process, with_tail

#: What a worker process runs.
_WORKER = "pytest_membudget.worker.__main__"
#: Seconds that the worker's own time limit gets to work before this side gives up on the worker.
_GRACE = 30.0
#: Seconds that an idle or estimating worker gets to end by itself.
_FAREWELL = 2.0
#: What makes a worker's device, ``module:function`` of the order.
VIRTUAL = "pytest_membudget.virtual.device:made_for"
CUDA = "pytest_membudget.measured.device:made_for"


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
    records: bool = False
    """Whether it records what snapshots of its tests tell."""
    device: str = VIRTUAL
    """What makes its device."""
    visible: str | None = None
    """The only CUDA device that it is to see; None: those that the session sees."""
    observes: bool = False
    """Whether it tells what its tests have read, for the cache of estimates."""


class Worker:
    """A worker process; ended by ``close``."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._scratch = tempfile.mkdtemp(prefix="membudget-")
        self._process, self._channel = start_process(_WORKER, self._output, _environment(order))
        self._collecting = False
        #: device memory that the test files hold since their import
        self.imported_bytes = 0
        #: what it says of its device
        self.card: Mapping[str, Any] = {}
        #: it uses the device already
        self.is_awake = False
        #: it has run a test in its own process, and can run no other
        self.is_spent = False
        try:
            self._begin()
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
        self.is_spent = answer.get("is_last", False)
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

    def _begin(self) -> None:
        order = {
            "args": list(self._order.args),
            "dir": self._order.dir,
            "files": list(self._order.files),
            "gpu": self._order.gpu,
            "records": self._order.records,
            "device": self._order.device,
            "scratch": self._scratch,
            "observes": self._order.observes,
        }
        try:
            self._channel.send(order)
        except BrokenPipeError:
            raise self._lost("the worker was gone before it had begun") from None
        self._receive("starting the session")
        self._collecting = True
        ready = self._receive("importing the test files")
        self._collecting = False
        self.imported_bytes, self.card = ready["imported_bytes"], ready["card"]
        self.is_awake = ready["is_awake"]

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
        return WorkerFailure(with_tail(what, self._output), collecting=self._collecting)


def _environment(order: Order) -> dict[str, str]:
    if order.device == VIRTUAL:
        return {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    environment = {
        # the allocator's own functions are local symbols, which the default mode cannot name (2.11)
        "TORCH_SYMBOLIZE_MODE": "fast",
        **os.environ,
        # asking whether CUDA is there must not wake the driver, which does not survive a fork
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
    }
    if order.visible is not None:
        environment["CUDA_VISIBLE_DEVICES"] = order.visible
    return environment
