"""Runs a worker's requests in as many child processes at once as the machine has room for.

Of a run next to others, only a figure counts. A test that failed, was skipped or hung may have done so
because of the others (a port, a file, the processor): it runs again alone, and that is its answer.
"""

import resource
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ...hardware.host_capacity import free_bytes
from ...results.answer import Answer
from ..protocol import RESULT, RUNNING, Channel, Message, Task, ready
from .child_process import INTERVAL, Child, SessionGone
from .made_files import FolderLock

#: Free host memory in bytes that one more child needs at least.
ROOM_BYTES = 2**30
#: So many that were asked for after one that is to run alone go before it: the session may wait for it.
_MOST_BEFORE = 8
#: Seconds between two heartbeats.
_HEARTBEAT = 10.0


@dataclass
class _Run:
    task: Task
    child: Child
    has_neighbours: bool = False


class ConcurrentRuns:
    """Serves requests, several at a time. Answers have the request's number and come in completion order."""

    def __init__(
        self,
        channel: Channel,
        most: int,
        start: Callable[[Task], Child | Answer],
        ended: Callable[[Task, bool], object],
        free: Callable[[], float] = free_bytes,
    ) -> None:
        """``start``: returns a child that answers a request, or the answer itself.

        ``ended``: called when a request's child has ended, with whether no other one runs, in any process;
        true if another that ran next to it may have changed its figure.
        ``free``: returns the free host memory in bytes.
        """
        self._channel = channel
        self._most = max(1, most)
        self._start = start
        self._ended = ended
        self._free_bytes = free
        self._waiting: deque[Task] = deque()
        #: requests that run again, alone
        self._alone: deque[Task] = deque()
        self._running: list[_Run] = []
        self._has_one_alone = False
        self._is_over = False
        self._next_heartbeat = time.monotonic() + _HEARTBEAT

    def serve(self, is_apart: Callable[[Task], bool], lock: FolderLock) -> None:
        """Serve until the session closes, or after an answer that ends this process.

        ``is_apart``: whether a request is to run alone; so it does in all processes that take the ``lock``.
        Raises ``SessionGone`` when the session has ended; no child is left then.
        """
        try:
            try:
                self._serve(is_apart, lock)
            finally:
                for run in self._running:
                    run.child.end()
                    self._ended(run.task, False)
            lock.release()  # before the last answers: the session may wait for who waits for it
            self._channel.flush()
        except BrokenPipeError:
            raise SessionGone from None

    def _serve(self, is_apart: Callable[[Task], bool], lock: FolderLock) -> None:
        while not self._is_over:
            self._start_more(is_apart, lock)
            self._wait()
            self._finish(lock)
            if not self._running:
                lock.release()
            if self._has_work and time.monotonic() >= self._next_heartbeat:
                self._channel.post(Message(RUNNING).to_json())
                self._next_heartbeat = time.monotonic() + _HEARTBEAT

    @property
    def _has_work(self) -> bool:
        return bool(self._running or self._waiting or self._alone)

    def _start_more(self, is_apart: Callable[[Task], bool], lock: FolderLock) -> None:
        while not self._is_over and self._has_room():
            while self._waiting and is_apart(self._waiting[0]):
                self._alone.append(self._waiting.popleft())
            is_alone = bool(self._alone) and (
                not self._waiting or self._waiting[0].number > self._alone[0].number + _MOST_BEFORE
            )
            if self._running if is_alone else not self._waiting:
                return
            tasks = self._alone if is_alone else self._waiting
            if not lock.take(alone=is_alone and is_apart(tasks[0])):
                return
            task = tasks.popleft()
            try:
                started = self._start(task)
            except OSError:
                if not self._running:
                    raise
                tasks.appendleft(task)  # no more processes are possible
                return
            if isinstance(started, Child):
                self._has_one_alone = is_alone
                self._running.append(_Run(task, started))
                if len(self._running) > 1:
                    for run in self._running:
                        run.has_neighbours = True
            else:
                self._answer(task, started)

    def _has_room(self) -> bool:
        if not self._running:
            return True
        if self._has_one_alone or len(self._running) >= self._most:
            return False
        largest_bytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024  # of those that ended
        each_bytes = max(ROOM_BYTES, largest_bytes)  # running tests may still grow
        return self._free_bytes() >= each_bytes * (len(self._running) + 1)

    def _wait(self) -> None:
        """Wait for a message of a child or the session, or for the end of a child's time limit.

        Meanwhile write what the session reads: it may first wait for another process, and that for a lock.
        """
        reading = [self._channel.read_fd, *(run.child.fd for run in self._running)]
        writing = [self._channel.write_fd] if self._channel.unwritten else []
        found = ready(reading, writing, INTERVAL if self._has_work else None)
        if self._channel.write_fd in found:
            self._channel.write_some()
        if self._channel.read_fd in found:
            self._receive()

    def _receive(self) -> None:
        """Read all messages that the session has sent."""
        try:
            while (message := self._channel.receive(0)) is not None:
                self._waiting.append(Task.from_json(message))
        except TimeoutError:
            return
        if self._has_work:
            raise SessionGone
        self._is_over = True

    def _finish(self, lock: FolderLock) -> None:
        """Check the children, and answer for those that have ended."""
        for run in list(self._running):
            answer = run.child.look()
            if answer is None:
                continue
            run.child.end()
            self._running.remove(run)
            is_changed = self._ended(run.task, not self._running and lock.take(alone=True))
            if run.has_neighbours and (is_changed or not answer.has_figure):
                self._alone.append(run.task)
            else:
                self._answer(run.task, answer)

    def _answer(self, task: Task, answer: Answer) -> None:
        self._channel.post(Message(RESULT, task.number, answer).to_json())
        self._is_over = self._is_over or answer.is_last
