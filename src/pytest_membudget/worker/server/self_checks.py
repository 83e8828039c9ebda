"""Self-check: a worker's device runs a step with known figures, once for each torch."""

import contextlib
import os
import sys

from ... import __version__
from ...cache.states import digest
from ...cache.store import cache_folder
from ...devices.real.device import Device
from ...errors import UnsupportedTorch
from ...results.answer import TRACED, Answer, failed
from .child_process import run_in_child

#: Seconds: it takes a fifth of one.
_TIMEOUT = 300.0


def check_once(device: Device) -> None:
    """Raise ``UnsupportedTorch`` if ``device`` gives other figures than the known ones.

    A success with this torch, Python and version of this plugin is recorded in the cache's folder.
    """

    def check() -> Answer:
        import torch

        names = [device.name, torch.__version__, torch.__file__, sys.version, __version__]
        passed = cache_folder(os.environ) / "self-checks" / digest("\n".join(names).encode())
        try:
            if not passed.exists():
                device.self_check()
        except UnsupportedTorch as error:
            return failed(str(error))
        with contextlib.suppress(OSError):  # not recorded: it is checked again
            passed.parent.mkdir(parents=True, exist_ok=True)
            passed.touch()
        return Answer(TRACED)

    # in the child, so that no test depends on the file
    answer = run_in_child(check, _TIMEOUT)
    if answer.outcome != TRACED:
        raise UnsupportedTorch(answer.reason)
