"""Entry point of a worker process: prepares the device, starts the session, serves requests."""

import importlib
import os
import pkgutil
import shutil
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import MembudgetError, UnsupportedTorch
from ..hardware.gpus import find_gpu
from .processes import flush_output, leave
from .protocol import FAILED, Channel, Message, Start
from .server.session_options import flush_each_line, keep_garbage, leave_out_of_garbage

if TYPE_CHECKING:
    from ..cache.observer import Observer
    from ..devices.real.device import Device


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a worker has before it starts its session."""

    device: "Device"
    observer: "Observer | None"
    """Records what tests read; None where nothing is kept of them."""


def main(read_fd: int, write_fd: int, prepared: Prepared | None = None) -> None:
    """Serve the session at the other end of the two pipes; never returns.

    ``prepared``: in a copy of the template, which has done that.
    """
    channel = Channel(read_fd, write_fd)
    flush_each_line()
    status, own, start = 1, os.getpid(), None
    try:
        received = channel.receive()
        if received is not None:
            start = Start.from_json(received)
            status = _serve(channel, start, prepared)
    except BrokenPipeError:
        pass  # the session has ended
    except BaseException as error:
        _fail(channel, f"{type(error).__name__} in the worker: {error}\n{traceback.format_exc()}")
    finally:
        if start is not None and os.getpid() == own:  # not in a process that the test has forked
            _remove_scratch(start)
        # at once: threads of autograd's engine may run, and atexit handlers are of libraries of the test's
        leave(status)


def _serve(channel: Channel, start: Start, prepared: Prepared | None) -> int:
    try:
        if prepared is None:
            prepared = prepare(start)
        else:
            os.chdir(start.dir)
            prepared.device.become(find_gpu(start.gpu), start.cards)
            if prepared.observer is not None:
                prepared.observer.leave_out(start.scratch)
    except MembudgetError as error:
        _fail(channel, str(error))
        return 1
    return _run_session(channel, start, prepared)


def prepare(start: Start) -> Prepared:
    """Import torch and install the device. Raises ``MembudgetError`` where nothing can be estimated."""
    keep_garbage()
    os.chdir(start.dir)
    observer = None
    if start.observes:  # everything that this process reads from here on, for the cache
        from ..cache.observer import Observer

        observer = Observer(start.scratch)
        observer.install()
    try:
        import torch  # first: a clear message if it is missing
    except Exception as error:
        what = f"torch cannot be imported ({type(error).__name__}: {error})"
        raise UnsupportedTorch(f"{what}; install torch 2.11 or later") from None
    if start.stack_file and "nccl" in start.backend:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    from ..devices.torch_parts import check_torch

    check_torch()
    from ..devices.real.environment_settings import follow_settings
    from .server.self_checks import check_once  # imports parts of it

    device: Device = pkgutil.resolve_name(start.device)(find_gpu(start.gpu))
    device.install()
    check_once(device)
    # the first step of an optimizer and fully_shard do (torch 2.13): in each test otherwise, where a cycle of
    # torch.fx.wrap's would keep what their callers hold until Python collects garbage
    with suppress(Exception):  # who uses it will see why
        importlib.import_module("torch._dynamo")
    follow_settings()
    leave_out_of_garbage()
    return Prepared(device, observer)


def _remove_scratch(start: Start) -> None:
    """Remove the folder of temporary files: the session may be gone. That of all ranks goes with the last."""
    shutil.rmtree(start.scratch, ignore_errors=True)
    if start.stack_file:
        with suppress(OSError):  # others have theirs in it
            os.rmdir(os.path.dirname(start.scratch))


def _run_session(channel: Channel, start: Start, prepared: Prepared) -> int:
    import pytest

    from .server.serving import ServingPlugin

    kind = ServingPlugin
    if start.stack_file:
        from .ranks.rank import RankPlugin

        kind = RankPlugin
    plugin = kind(channel, prepared.device, start, prepared.observer)
    place = {"rank": start.rank, "world_size": start.world_size}
    prepared.device.begin_imports(start.variant, limited=start.limited, **place)
    status = pytest.main([*start.args], plugins=[plugin])
    if not plugin.served:
        reason = f"the session could not be started in the worker (pytest's exit status is {int(status)})"
        _fail(channel, f"{reason}\n{plugin.trouble}".strip())
    return int(status)


def _fail(channel: Channel, reason: str) -> None:
    flush_output()  # the session reports the end of the output
    channel.send(Message(FAILED, reason=reason).to_json())


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
