"""The worker process: the virtual device first, then the user's session, then one test at a time."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

from ..protocol import Channel
from .jail import run_in_child

#: Seconds for a step that takes a fraction of one.
_CHECK_TIMEOUT = 60.0


def main(read_fd: int, write_fd: int) -> None:
    """Serve the session at the other end of the two pipes; never returns."""
    channel = Channel(read_fd, write_fd)
    status = 1
    try:
        order = channel.receive()
        if order is not None:
            status = _serve(channel, order)
    except BrokenPipeError:
        pass  # the session is gone, and nobody wants an answer
    except BaseException:
        channel.send({"event": "failed", "reason": traceback.format_exc()})
    finally:
        # a build without CUDA aborts at exit: the autograd engine started a thread for the virtual device
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _serve(channel: Channel, order: dict[str, Any]) -> int:
    os.chdir(order["dir"])
    try:
        import torch  # noqa: F401 - a clear word on what is missing, before anything else needs it
    except ImportError as error:
        reason = f"torch cannot be imported ({error}); install torch 2.11 or later: its CPU build is enough"
        channel.send({"event": "failed", "reason": reason})
        return 1
    from ..errors import MembudgetError
    from ..gpus import find_gpu
    from ..virtual.device import VirtualDevice

    gpu = find_gpu(order["gpu"])
    device = VirtualDevice(gpu)
    try:
        device.install()
    except MembudgetError as error:
        channel.send({"event": "failed", "reason": str(error)})
        return 1
    # in a child: the engine's threads must not be there when tests are run in children of this process
    checked = run_in_child(lambda: _checked(device, gpu), timeout=_CHECK_TIMEOUT)
    if "reason" in checked:
        channel.send({"event": "failed", "reason": checked["reason"]})
        return 1
    return _run_session(channel, order, device)


def _checked(device: Any, gpu: Any) -> dict[str, Any]:
    from ..errors import UnsupportedTorch
    from ..virtual.self_check import self_check

    try:
        self_check(device, gpu)
    except UnsupportedTorch as error:
        return {"reason": str(error)}
    return {}


def _run_session(channel: Channel, order: dict[str, Any], device: Any) -> int:
    import pytest

    from .serving import ServingPlugin

    plugin = ServingPlugin(channel, device, order["files"])
    status = pytest.main(order["args"], plugins=[plugin])
    if not plugin.served:
        reason = "the session could not be started in the worker" + (
            f":\n{plugin.trouble}" if plugin.trouble else f" (pytest exit status {int(status)})"
        )
        channel.send({"event": "failed", "reason": reason})
    return int(status)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
