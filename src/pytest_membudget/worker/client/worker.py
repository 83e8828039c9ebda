"""Worker: one process that answers requests, from its start to its end; one may start early."""

import itertools
import re
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from ...errors import WorkerFailure
from ...results.answer import Answer, Request
from ..processes import WORKER_MODULE, Process, end_process, end_text, start_process, with_tail
from ..protocol import FAILED, RUNNING, Channel, Message, Task
from ..time_limit import Watch
from .order import Order, started_with
from .template import Copy, Template

#: Seconds in addition to a test's time limit, which the worker enforces, before the session ends the worker.
_GRACE = 30.0
#: The same for the start: importing a CUDA build of torch on a busy host takes long.
_START_GRACE = 120.0
#: Requests sent in addition to the running ones, so that a worker need not wait for the next.
_QUEUED = 2


class Worker:
    """A worker process, which is there when ``wait_until_ready`` has returned; ended by ``close``."""

    _process: Process
    _channel: Channel

    def __init__(self, order: Order) -> None:
        """Ask the template for it, if there is one; ``wait_until_ready`` starts one that it does not make."""
        self._order = order
        self._collecting = False
        #: requests that were sent and not answered yet, by number; answers arrive in completion order
        self.pending: dict[int, Request] = {}
        self._numbers = itertools.count(1)
        with ExitStack() as made:
            self._output = made.enter_context(tempfile.TemporaryFile())
            #: the folder of its temporary files
            self.scratch = tempfile.mkdtemp(prefix="membudget-")
            made.callback(shutil.rmtree, self.scratch, ignore_errors=True)
            self._started_with = started_with(order, self.scratch)
            self._asked = self._ask() if order.template else None
            self._made = made.pop_all()  # until ``close``
        if self._asked is not None:
            self._made.callback(self._asked.close)

    def _ask(self) -> Copy:
        seconds = self._order.timeout + _START_GRACE
        asked = Copy(self._order.template, self._output, *self._started_with, seconds)
        with suppress(BrokenPipeError):  # there will be none
            asked.channel.send(self._order.start(self.scratch).to_json())
        return asked

    def _start(self) -> None:
        if self._asked is not None and self._asked.made():
            self._process, self._channel = self._asked, self._asked.channel
        else:
            environment, path = self._started_with
            self._process, self._channel = start_process(
                WORKER_MODULE, self._output, environment, import_path=path
            )
            with suppress(BrokenPipeError):  # messages that it sent before it ended are read below
                self._channel.send(self._order.start(self.scratch).to_json())
        self._made.callback(end_process, self._process, self._channel)

    def is_for(self, order: Order) -> bool:
        """Whether it is what would be started for ``order`` now."""
        own = replace(self._order, collected=order.collected, files=order.files)
        has_files = {*own.files} == {*self._order.files}
        return has_files and own == order and started_with(order, self.scratch) == self._started_with

    def has_room(self) -> bool:
        """Whether it runs several tests and can be sent one more request now."""
        most = self._order.processes + _QUEUED if self._order.processes > 1 else 1
        return len(self.pending) < most

    def send(self, request: Request) -> None:
        """Send ``request``, which names one test. Raises ``WorkerFailure`` if the worker is lost."""
        task = Task(next(self._numbers), request)
        self.pending[task.number] = request
        try:
            self._channel.send(task.to_json(), reads=True)
        except BrokenPipeError:
            raise self._lost("the worker was gone") from None

    def receive(self, awaited: Request) -> tuple[Request, Answer]:
        """The next answer, and the request that it is for: ``awaited`` or another one that was sent.

        Raises ``WorkerFailure`` if the worker is lost; then start another one. After any other exception
        too, since answers are still to come.
        """
        message = self._receive(f"estimating {awaited.key}")
        request = self.pending.pop(message.number, None)
        if request is None or message.answer is None:
            raise self._lost("the worker answered what it was not asked")
        return request, message.answer

    def close(self) -> None:
        """Kill the process and the tests that it runs."""
        self._made.close()

    def wait_until_ready(self) -> None:
        """Wait until it has collected its files. Raises ``WorkerFailure``."""
        self._start()
        self._receive("starting the session", _START_GRACE)
        self._collecting = True
        ready = self._receive("importing the test files")
        self._collecting = False
        #: device memory that was allocated when the test files were imported, in bytes
        self.imported_bytes = ready.imported_bytes
        #: whether ranks have to import the files for themselves
        self.asks_place = ready.asks_place
        #: what its device says of itself: its properties, or why they could not be read
        self.card = ready.answer
        #: the node ids of the tests with budgets that it has collected, by file and key
        self.marked = ready.marked

    def _receive(self, doing: str, grace: float = _GRACE) -> Message:
        """The next message, within the time limit of a test plus ``grace`` seconds.

        A heartbeat starts the limit again: the worker enforces the time limits of its tests.
        """
        watch = Watch(self._process.pid, self._order.timeout + grace)
        while True:
            try:
                received = self._channel.receive(watch.wait_seconds())
            except TimeoutError:
                overrun = watch.look()
                if overrun is not None:
                    late = overrun.text("answer")
                    raise self._lost(f"the worker did not answer while {doing}: {late}") from None
                continue
            if received is None:
                self._process.wait()
                raise self._lost(f"the worker {end_text(self._process.returncode)} while {doing}")
            message = Message.from_json(received)
            if message.event == FAILED:
                raise self._lost(message.reason)
            if message.event != RUNNING:
                return message
            watch = Watch(self._process.pid, self._order.timeout + grace)

    def _lost(self, what: str) -> WorkerFailure:
        return WorkerFailure(with_tail(what, self._output), collecting=self._collecting)


#: An argument of the marker that names a card, or how many.
_CARDS: Final = re.compile(r"\bgpus?\s*=")
#: Their names fit into a pipe, which nobody reads yet.
_MOST_FILES: Final = 200


class EarlyWorker:
    """A worker that imports the test files while the session collects them: at most one.

    It is used if it is what would be started when the session has collected, else closed.
    """

    def __init__(self, order: Order, template: Template, *, is_needed: bool) -> None:
        """``order``: for the session's default card. ``is_needed``: whether no answer can be a cached one."""
        self._order = order
        self._template = template
        self._may_begin = is_needed
        self._worker: Worker | None = None

    def begin(self, files: Sequence[str]) -> None:
        """Ask the template, once, for a worker of ``files``, unless one of them names cards in its text."""
        if not self._may_begin or not self._template.address or len(files) > _MOST_FILES:
            return
        self._may_begin = False
        texts = (Path(file).read_text(encoding="utf-8", errors="replace") for file in files)
        if not any(map(_CARDS.search, texts)):
            self._worker = Worker(replace(self._order, files=list(files), template=self._template.address))

    def start(self, order: Order) -> Worker:
        """A worker for ``order``: the one that was asked for, or another."""
        worker, self._worker = self._worker, None
        if worker is not None and not worker.is_for(order):
            worker.close()
            worker = None
        return worker or Worker(order)

    def close(self) -> None:
        """End the worker, if nobody has used it."""
        if self._worker is not None:
            self._worker.close()
