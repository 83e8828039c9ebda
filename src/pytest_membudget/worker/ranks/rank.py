"""RankPlugin: makes a pytest session serve the one test of a rank, inside a process group."""

import contextlib
import os
import shutil
import signal
import threading
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from ...devices.real.device import Device
from ...devices.real.group_begins import put
from ...devices.stand_in.ranks.shown_backend import UNNAMED, show_backend
from ...devices.torch_parts import check_parts
from ...results.answer import TRACED, Answer, failed
from ..processes import flush_output, leave
from ..protocol import BEGUN, Channel, Message, Start, Task
from ..server.serving import ServingPlugin
from ..server.stack_dump import dump_stack_on_signal
from ..time_limit import LONGEST

#: Seconds that collectives wait in addition to the test's time limit, which should end the test first.
_SLACK = 60.0
#: (module, attribute path, what it is for): see ``devices/torch_parts.py``.
PARTS: tuple[tuple[str, str, str], ...] = (
    ("torch.distributed.distributed_c10d", "_world.pg_map", "the backend that a process group is shown with"),
    ("torch.distributed.distributed_c10d", "BackendConfig", "the devices that a backend serves"),
)


class RankPlugin(ServingPlugin):
    """Runs the test in this process, as the rank that the environment names.

    It stays after its answer, with its connections, so that no other rank fails because of it.
    """

    def __init__(self, channel: Channel, device: Device, start: Start, observer: Any) -> None:
        super().__init__(channel, device, start, observer)
        self._pid = os.getpid()
        #: when it failed; comparable among processes of one machine
        self._failed_at: float | None = None
        self._stack_file = Path(start.stack_file)
        dump_stack_on_signal(self._stack_file)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record when it failed: its teardown may destroy the process group, and then others fail."""
        if report.failed and self._failed_at is None:
            self._failed_at = time.monotonic()

    def _card(self) -> Answer:
        return Answer(TRACED)  # the session does not need it

    def _run(self, item: pytest.Item, task: Task) -> Answer:
        threading.Thread(target=self._end_with_session, daemon=True).start()
        try:
            limit = timedelta(seconds=self._start.timeout * LONGEST + _SLACK)
            dist.init_process_group(self._start.backend, timeout=limit)
            accept_own_group()
        except Exception as error:
            reason = f"the process group could not be formed ({type(error).__name__}: {error})"
            return failed(reason, is_last=True)
        flush_output()
        # output from here on is the test's: it may print before the session reads this
        self._channel.send(Message(BEGUN, printed_bytes=os.fstat(1).st_size).to_json())
        answer = self._body(item, task)
        if os.getpid() != self._pid:  # in a process that the test has forked
            leave(0)
        reports = tuple(replace(report, rank=int(os.environ["RANK"])) for report in answer.reports)
        failed_at = self._failed_at or time.monotonic()
        return replace(answer, reports=reports, failed_at=failed_at, is_last=True)

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


def accept_own_group() -> None:
    """Make the test's first ``init_process_group`` return the existing group, if the arguments match it.

    The stand-in does the same, so that one body runs on both. A second call raises torch's error. The
    group of the rank also serves the host (``cpu:gloo,cuda:nccl``), as FSDP2 with its optimizer on the host
    needs. ``get_backend`` returns the backend for cards, and after a test's own call the backend that the
    test asked for, as if that call had made the group.
    """
    check_parts(PARTS)
    served = _served(dist.get_backend())
    shown = served["cuda"]
    show_backend(dist.group.WORLD, shown)
    original = c10d.init_process_group

    def find_group(backend: str | None = None, *args: Any, **kwargs: Any) -> None:
        put("init_process_group", original)
        if not dist.is_initialized():
            c10d.init_process_group(backend, *args, **kwargs)
            return
        if backend is not None and not _served(backend).items() <= served.items():
            raise _other(backend, shown, "backend")
        for name, own in (("world_size", dist.get_world_size()), ("rank", dist.get_rank())):
            if kwargs.get(name, -1) not in (-1, own):
                raise _other(kwargs[name], own, name)
        # PyTorch returns only the backend of the given device
        unnamed = UNNAMED if kwargs.get("device_id") is None else shown
        show_backend(dist.group.WORLD, unnamed if backend is None else backend.lower())

    put("init_process_group", find_group)


def _served(backend: str) -> dict[str, str]:
    """The backends of ``backend`` by device type: ``{"cuda": "nccl"}`` for nccl."""
    asked: Any = c10d.BackendConfig(c10d.Backend(backend))
    served = asked.get_device_backend_map()
    return {device: str(served[device]) for device in ("cpu", "cuda") if device in served}


def _other(asked: Any, own: Any, name: str) -> ValueError:
    return ValueError(
        f"init_process_group({name}={asked!r}): the test runs in a process group with {name}={own!r}, "
        f"which is there before it begins; leave the call out, or write {own!r}"
    )
