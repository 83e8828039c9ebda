"""Entry point of one rank's process: runs one test of the session inside a process group."""

from __future__ import annotations

import importlib
import os
import sys
import time
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import pytest

from ...budgets.node_ids import name_of_rank
from ...devices.contract import Device
from ...errors import MembudgetError
from ..process_end import end_with_parent, leave
from ..protocol import Channel
from ..server.one_test.item_run import ItemRun
from ..server.serving import ServingPlugin
from ..server.stack_dump import dump_stack_on_signal
from ..time_limit import LONGEST
from .own_group import accept_own_group
from .rank_answers import FAILURES
from .rank_files import RankFiles

#: Seconds after which a failed rank exits by itself. It keeps its connections until it is ended, so that no
#: other rank fails because of it before the first failure is known.
_LAST_STAY = 30.0
#: Seconds that collectives wait in addition to the test's time limit, which should end the test first.
_SLACK = 60.0


def main(order: dict[str, Any], parent_pid: int) -> NoReturn:
    """Run the test of ``order`` as the rank that the environment names; never returns.

    ``parent_pid``: the process that watches and ends this one; if it dies, this process ends.
    """
    files = RankFiles(Path(order["folder"]), int(os.environ["RANK"]))
    try:
        _settle(files, parent_pid)
        _run_session(order, files)
    except MembudgetError as error:
        _fail(files, str(error))
    except BaseException as error:
        what = f"{type(error).__name__} in the rank's process: {error}"
        _fail(files, f"{what}\n{traceback.format_exc()}")
    finally:
        leave(1)


def _settle(files: RankFiles, parent_pid: int) -> None:
    end_with_parent()
    if os.getppid() != parent_pid:  # the parent had ended before
        leave(1)
    output = os.open(files.path("out"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)
    for stream in (sys.stdout, sys.stderr):  # the output is complete if the process is killed
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    dump_stack_on_signal(files.path("where"))
    files.write("pid", os.getpid())


def _run_session(order: dict[str, Any], files: RankFiles) -> None:
    os.chdir(order["dir"])
    if "nccl" in order["backend"]:
        import torch

        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    module, _, function = order["device"].partition(":")
    device = getattr(importlib.import_module(module), function)(order)
    device.install()
    plugin = RankPlugin(device, order, files)
    status = pytest.main(list(order["args"]), plugins=[plugin])
    what = f"the session could not be started for the rank (pytest's exit status is {int(status)})"
    _fail(files, f"{what}\n{plugin.trouble}".strip())


def _fail(files: RankFiles, reason: str) -> None:
    files.write("json", {"outcome": "error", "reason": reason})
    time.sleep(_LAST_STAY)


class _AnswerFile(Channel):
    """A channel that writes its one answer to a file."""

    def __init__(self, files: RankFiles) -> None:
        super().__init__(-1, -1)
        self._files = files
        self._pid = os.getpid()
        self.failed = False
        #: when it failed; comparable among processes of one machine
        self.failed_at: float | None = None

    def send(self, message: Any) -> None:
        """Write the answer; a rank sends nothing else."""
        if os.getpid() != self._pid:  # in a process that the test has forked
            leave(0)
        if message["event"] == "result":
            self.failed = message["outcome"] in FAILURES
            failed_at = time.monotonic() if self.failed_at is None else self.failed_at
            self._files.write("json", {**message, "failed_at": failed_at})


class RankPlugin(ServingPlugin):
    """Serves the one test of an order in this process, with a process group around it."""

    def __init__(self, device: Device, order: dict[str, Any], files: RankFiles) -> None:
        request = dict(order["request"])
        if request["snapshot"] is not None:
            request["snapshot"] = name_of_rank(request["snapshot"], files.rank)
        self._answers = _AnswerFile(files)
        scratch = files.path("scratch")
        scratch.mkdir()
        super().__init__(self._answers, device, [request["file"]], str(scratch))
        self._request = request
        self._order = order
        self._rank_files = files

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record when it failed: its teardown may destroy the process group, and then others fail."""
        if report.failed and self._answers.failed_at is None:
            self._answers.failed_at = time.monotonic()

    def _serve(self) -> None:
        """Answer the one request in this process."""
        answer = self._answer(self._request)
        assert isinstance(answer, dict)  # ``_run`` starts no child
        self._answers.send({"event": "result", "key": self._request["key"], **answer})

    def _card(self) -> dict[str, Any]:
        return {}  # the agent does not need it

    def _run(self, item: pytest.Item, request: dict[str, Any]) -> dict[str, Any]:
        try:
            self._form_group()
            accept_own_group()
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            return {"outcome": "error", "reason": f"the process group could not be formed ({what})"}
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self._rank_files.begin()
        self._current = ItemRun(item, self._device, request, self._caveats)
        answer = self._current.run()
        if answer.get("report"):
            answer["report"]["rank"] = self._rank_files.rank
        return answer

    def _form_group(self) -> None:
        import torch.distributed as dist

        limit = timedelta(seconds=self._order["timeout"] * LONGEST + _SLACK)
        # at the store of the agent
        dist.init_process_group(self._order["backend"], timeout=limit)

    def _leave(self) -> NoReturn:
        import torch.distributed as dist

        if self._answers.failed:
            time.sleep(_LAST_STAY)
            leave(1)
        try:
            if dist.is_initialized():
                dist.destroy_process_group()
        except Exception:
            traceback.print_exc()
        finally:
            leave(0)
