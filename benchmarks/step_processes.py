"""Runs of steps in processes of their own: started ahead, let go one after the other, ended when overdue."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_membudget.devices.choice import find_stand_in
from pytest_membudget.devices.stand_in.environment import stand_in_environment
from pytest_membudget.hardware.gpus import find_gpu
from pytest_membudget.names import ALLOC_CONF

from .steps.step import Step

ROOT = Path(__file__).parents[1]
_LAST_BYTES = 1500


@dataclass(frozen=True, slots=True)
class Run:
    """One run that is wanted."""

    step: Step | None
    way: str
    device: str
    gpu: str | None = None
    history: Path | None = None


class StepProcess:
    """A process that has begun to import what its run needs; ``scratch`` takes its files."""

    def __init__(self, run: Run, scratch: Path, number: int) -> None:
        self.run = run
        self._out, self._log = scratch / f"{number}.json", scratch / f"{number}.log"
        order = {
            "way": run.way,
            "device": run.device,
            "gpu": run.gpu,
            "step": run.step.to_json() if run.step else None,
            "root": str(ROOT),
            "out": str(self._out),
            "history": str(run.history) if run.history else None,
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.step_run", json.dumps(order)],
                stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=ROOT, env=step_environment(run, scratch),
            )  # fmt: skip

    def answer(self, limit_seconds: float) -> dict[str, Any]:
        """Let it go, and wait: what it says, or that it was overdue or died."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has died already, or has answered
            self._process.stdin.write(b"\n")
            self._process.stdin.close()
        try:
            status = self._process.wait(limit_seconds)
        except subprocess.TimeoutExpired:
            self.stop()
            return {"outcome": "timeout", "message": f"it ran for more than {limit_seconds:.0f} s"}
        try:
            answer: dict[str, Any] = json.loads(self._out.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            end = self._log.read_bytes()[-_LAST_BYTES:].decode(errors="replace")
            return {"outcome": "error", "message": f"its process ended with status {status}: {end}"}
        return answer

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()


def started_ahead(runs: Iterable[Run], scratch: Path, ahead: int) -> Iterator[StepProcess]:
    """The processes of ``runs`` in order, ``ahead`` of them started before they are asked for."""
    waiting: deque[StepProcess] = deque()
    try:
        for number, run in enumerate(runs):
            waiting.append(StepProcess(run, scratch, number))
            if len(waiting) > ahead:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
    finally:
        for process in waiting:
            process.stop()


class Clock:
    """Tells how much longer steps take, from how long those before took beside what was expected."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._done_seconds = 0.0

    def done(self, expected_seconds: float) -> None:
        """A step is done that was expected to take this."""
        self._done_seconds += expected_seconds

    @property
    def passed_seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    def left_seconds(self, expected_seconds: float) -> float:
        """For steps that are expected to take this."""
        if not self._done_seconds:
            return expected_seconds
        return expected_seconds * self.passed_seconds / self._done_seconds


def step_environment(run: Run, scratch: Path) -> Mapping[str, str]:
    """The variables of the process of ``run``; on the stand-in it compiles anew, as a worker does."""
    environment = {name: value for name, value in os.environ.items() if name not in ALLOC_CONF}
    paths = [str(ROOT), str(ROOT / "src"), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    environment["HF_HUB_OFFLINE"] = "1"
    if run.step and run.step.alloc_conf:
        environment["PYTORCH_ALLOC_CONF"] = run.step.alloc_conf
    if run.way == "measured":
        # of the allocator's own functions only the local symbols tell, and reading them in this process is
        # quick (torch/csrc/profiler/unwind, 2.11, whose default knows exported symbols alone)
        environment.setdefault("TORCH_SYMBOLIZE_MODE", "fast")
    if run.device == "stand-in" and run.gpu is not None:
        stand_in = find_stand_in()
        return stand_in_environment(
            stand_in.libraries, stand_in.torch, find_gpu(run.gpu), 1, environment, scratch=str(scratch)
        )
    return environment
