"""Runs one test on several ranks in a process with the ranks' agent, and returns one answer."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from ..client.listening import NoMessage, next_message
from ..client.order import SYMBOLS, Order
from ..client.process_start import end_process, start_process, with_tail
from ..process_end import end_text
from .rank_files import end_groups

#: The module that the agent's process runs.
_AGENT = "pytest_membudget.worker.ranks.agent"
#: Seconds that the agent gets in addition to the time limit of a test, at its start and at its end, before
#: the session ends it.
_GRACE = 90.0


def measure_ranks(order: Order, gpus: int, request: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of ``gpus`` ranks to ``request``, a worker's request that names one test.

    ``outcome``, ``reason``, ``details``, ``where``, ``raised``, ``device``, ``properties``, ``has_snapshot``
    and ``snapshot_error`` are as in a worker's answer; ``reports`` has one report for each rank, and
    ``failed_rank`` is the rank that failed first. All processes are gone when this returns or raises.
    """
    folder = tempfile.mkdtemp(prefix="membudget-")
    try:
        with tempfile.TemporaryFile() as output:
            message = {**order.to_json(), "gpus": gpus, "request": dict(request), "folder": folder}
            return _ask(message, output, dict(order.environment))
    finally:
        end_groups(Path(folder))
        shutil.rmtree(folder, ignore_errors=True)


def _ask(message: Mapping[str, Any], output: IO[bytes], environment: Mapping[str, str]) -> dict[str, Any]:
    process, channel = start_process(_AGENT, output, {**SYMBOLS, **os.environ, **environment})
    try:
        channel.send(message)
        answer = next_message(channel, process.pid, message["timeout"] + _GRACE)
        if answer is not None:
            return answer
        process.wait()
        return _lost(f"the ranks' agent {end_text(process.returncode)}", output)
    except NoMessage as silent:
        return _lost(silent.overrun.text("answer", who="the ranks' agent"), output)
    except BrokenPipeError:
        return _lost("the ranks' agent ended before it began", output)
    finally:
        end_process(process, channel)  # and its ranks with it


def _lost(what: str, output: IO[bytes]) -> dict[str, Any]:
    return {"outcome": "error", "reason": with_tail(what, output), "reports": []}
