"""The ranks' agent: starts the ranks of one test with torch's elastic agent, and collects their answers."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import threading
import traceback
import uuid
from pathlib import Path
from typing import Any, NoReturn

from ..process_end import leave
from ..protocol import Channel, RunningSigns
from ..time_limit import LONGEST
from .rank_answers import combined
from .rank_files import rank_arguments
from .rank_watch import RankWatch

#: Seconds between two checks of the ranks. Torch's agent checks less often, so that this process finds the
#: rank that failed first before torch's agent ends the others.
_INTERVAL = 0.05
_AGENTS_INTERVAL = 0.3
#: Seconds that torch's agent gets to notice the end of the ranks, before it is notified.
_PATIENCE = 5.0


def main(read_fd: int, write_fd: int) -> NoReturn:
    """Serve the session at the other end of the two pipes: one order, one answer; never returns."""
    channel = Channel(read_fd, write_fd)
    try:
        order = channel.receive()
        if order is not None:
            channel.send(_launch(channel, order))
    except BrokenPipeError:
        pass  # the session has ended
    except BaseException as error:
        what = f"{type(error).__name__} in the ranks' agent: {error}\n{traceback.format_exc()}"
        channel.send({"outcome": "error", "reason": what, "reports": []})
    finally:
        leave(0)


def is_session_gone(channel: Channel) -> bool:
    """Whether the session has closed the pipe; after its order it sends nothing more."""
    try:
        return channel.receive(0) is None
    except TimeoutError:
        return False


def _launch(channel: Channel, order: dict[str, Any]) -> dict[str, Any]:
    folder, world_size = Path(order["folder"]), order["gpus"]
    watch = RankWatch(folder, world_size, order["timeout"])
    arguments = rank_arguments(folder, order)
    # as torchrun does it (torch/distributed/run.py, config_from_args, 2.13)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(watch, channel, over, folder), daemon=True)
    watcher.start()
    exit_codes = _run_agent(folder, world_size, order["timeout"], arguments)
    over.set()
    watcher.join()
    watch.end_all()  # processes that the ranks have started
    return combined(watch.ends(exit_codes))


def _run_agent(folder: Path, world_size: int, timeout: float, arguments: list[str]) -> dict[int, int]:
    """Run the ranks until all have ended; returns the exit codes that are not 0."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=world_size,
        run_id=uuid.uuid4().hex,
        # torchrun --standalone: a store on a free port of this machine
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        rdzv_timeout=max(1, int(timeout * LONGEST)),
        local_addr="localhost",
        max_restarts=0,
        monitor_interval=_AGENTS_INTERVAL,
        logs_specs=DefaultLogsSpecs(log_dir=str(folder / "logs"), redirects=Std.ALL),
    )
    try:
        elastic_launch(config, sys.executable)(*arguments)
    except ChildFailedError as error:
        return {rank: failure.exitcode for rank, failure in error.failures.items()}
    except SignalException:  # torch's agent did not notice that the ranks had ended
        pass
    return {}


def _watch(watch: RankWatch, channel: Channel, over: threading.Event, folder: Path) -> None:
    """Watch the ranks until they end: end all of them if one fails, or if the session is gone."""
    signs = RunningSigns(channel)
    while not over.wait(_INTERVAL):
        if is_session_gone(channel):
            watch.end_all()
            shutil.rmtree(folder, ignore_errors=True)  # the session was killed
            leave(1)
        with contextlib.suppress(BrokenPipeError):  # the next check finds that the session is gone
            signs.give()
        if watch.look():
            watch.end_all()
            break
    else:
        return
    if not over.wait(_PATIENCE):
        os.kill(os.getpid(), signal.SIGTERM)
