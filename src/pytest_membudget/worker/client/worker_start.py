"""Starts a worker's process, which may be before it is known which files it is to collect.

What it imports then (torch, the device) is what it would import later: a session whose variables or import
path have changed meanwhile, so that this might not be so, starts another.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ...devices.fake.cluster.shown_backend import LAUNCHERS
from ...devices.stand_in.building import Built
from ...devices.stand_in.environment import stand_in_environment
from ...hardware.gpus import find_gpu
from .process_start import start_process

#: What a worker process runs.
_WORKER = "pytest_membudget.worker.__main__"
#: Seconds that an idle or estimating worker gets to end by itself.
_FAREWELL = 2.0
#: What makes a worker's device, ``module:function`` of the order.
VIRTUAL = "pytest_membudget.devices.fake.device:made_for"
STAND_IN = "pytest_membudget.devices.stand_in.device:made_for"
CUDA = "pytest_membudget.devices.real.device:made_for"
#: The backends between several cards.
CUDA_GROUP = LAUNCHERS
#: The allocator's own functions are local symbols, which the default mode cannot name (torch 2.11).
SYMBOLS: Final = {"TORCH_SYMBOLIZE_MODE": "fast"}


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
    libraries: Built | None = None
    """Of the stand-in."""
    cards: int = 1
    """How many cards a process sees on the stand-in."""
    visible: str | None = None
    """The only CUDA device that it is to see; None: those that the session sees."""
    observes: bool = False
    """Whether it tells what its tests have read, for the cache of estimates."""
    at_once: int = 1
    """How many of its tests may run beside each other."""


class WorkerStart:
    """A worker's process that was told all of its order but the files; ended by ``close``."""

    def __init__(self, order: Order) -> None:
        self._order = replace(order, files=())
        self._variables = _variables()
        self._import_path = import_path()
        self.output = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._scratch = tempfile.mkdtemp(prefix="membudget-")
        self.process, self.channel = start_process(_WORKER, self.output, _environment(order, self._scratch))
        with contextlib.suppress(BrokenPipeError):  # what has become of it is told when it is needed
            self.channel.send(
                {
                    "args": list(order.args),
                    "dir": order.dir,
                    "gpu": order.gpu,
                    "records": order.records,
                    "device": order.device,
                    "scratch": self._scratch,
                    "observes": order.observes,
                    "at_once": order.at_once,
                }
            )

    def is_for(self, order: Order) -> bool:
        """Whether one that is started now for ``order`` would be told, and would see, the same."""
        return self._order == replace(order, files=()) and self._variables == _variables()

    def finds_the_same(self, names: Collection[str]) -> bool:
        """Whether the import path of now has the modules ``names``, imported or missed, where it had them."""
        before, now = self._import_path, import_path()
        if [path for path in now if path in before] != before:
            return False
        return all(not _has_any(path, names) for path in now if path not in before)

    def close(self, patience: float = _FAREWELL) -> None:
        """End the process, whatever it does, and the tests that it runs."""
        self.channel.close()  # which ends it, and its tests' processes with it, if it listens
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.output.close()
        shutil.rmtree(self._scratch, ignore_errors=True)


def _variables() -> dict[str, str]:
    """This process's, without the test that it is at."""
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def import_path() -> list[str]:
    """This process's, each place once."""
    return list(dict.fromkeys(os.path.abspath(entry) for entry in sys.path))


def _has_any(path: str, names: Collection[str]) -> bool:
    """Whether ``path`` may have one of the modules ``names``; who cannot look says that it has."""
    try:
        return any(entry.partition(".")[0] in names for entry in os.listdir(path))
    except FileNotFoundError:
        return False
    except OSError:  # an archive
        return True


def _environment(order: Order, scratch: str) -> dict[str, str]:
    if order.device == VIRTUAL:
        return {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    if order.libraries is not None:
        environment = {**SYMBOLS, **os.environ}
        card = find_gpu(order.gpu)
        return stand_in_environment(
            order.libraries, card, order.cards, environment, unlimited=True, scratch=scratch
        )
    environment = {
        **SYMBOLS,
        **os.environ,
        # asking whether CUDA is there must not wake the driver, which does not survive a fork
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
    }
    if order.visible is not None:
        environment["CUDA_VISIBLE_DEVICES"] = order.visible
    return environment
