"""The two devices' processes, as the comparison sees them: both get the same order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_membudget.allocator.settings import VARIABLES
from pytest_membudget.devices.stand_in.building import built_libraries
from pytest_membudget.devices.stand_in.environment import stand_in_environment
from pytest_membudget.hardware.gpus import find_gpu

#: The devices, by the names that ``--membudget-device`` has for them.
FAKE, STAND_IN = "fake", "stand-in"
DEVICES = (STAND_IN, FAKE)
ROOT = Path(__file__).parents[2]


def environment_of(device: str, gpu: str, alloc_conf: str = "") -> dict[str, str]:
    """The variables of a process on ``device``, with the same allocator's settings on both."""
    base = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    paths = [str(ROOT), str(ROOT / "src"), base.get("PYTHONPATH", "")]
    base["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    base["HF_HUB_OFFLINE"] = "1"
    if alloc_conf:
        base["PYTORCH_ALLOC_CONF"] = alloc_conf
    if device == FAKE:
        return {**base, "CUDA_VISIBLE_DEVICES": ""}
    return stand_in_environment(built_libraries(base), find_gpu(gpu), 1, base, unlimited=True)


class Pair:
    """A process of each device."""

    def __init__(self, part: str, gpu: str, alloc_conf: str = "") -> None:
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.parity.server", device, gpu, part],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
                env=environment_of(device, gpu, alloc_conf),
            )
            for device in DEVICES
        ]  # fmt: skip

    def answers(self, order: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What the stand-in and the device of fake tensors answer to ``order``."""
        line = json.dumps(order) + "\n"
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(line)
            process.stdin.flush()
        return [_answer(process) for process in self._processes]

    def close(self) -> None:
        """End both."""
        for process in self._processes:
            process.kill()
            process.wait()


def _answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"a device's process has ended with status {process.wait()}")
    answer: dict[str, Any] = json.loads(line)
    return answer
