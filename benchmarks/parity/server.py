"""A process with one of the devices, which runs pieces of work in children of its own.

``python -m benchmarks.parity.server DEVICE GPU PART``: orders and answers are JSON lines on standard input
and output.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from pytest_membudget.hardware.gpus import find_gpu
from pytest_membudget.worker.server.child_process import run_in_child

FAKE, STAND_IN = "fake", "stand-in"


def main(arguments: list[str]) -> NoReturn:
    """Answer one order after the other."""
    name, gpu, part = arguments
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the work prints is not an answer
    warnings.simplefilter("ignore")
    side = _side(name, gpu)
    side.install()
    run = _RUNS[part]()
    for line in sys.stdin:
        order = json.loads(line)
        answer = run_in_child(lambda: run(side, order), timeout=order.get("timeout", 60.0))  # noqa: B023 - called at once
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    os._exit(0)


def _side(name: str, gpu: str) -> Any:
    if name == FAKE:
        from .fake_side import FakeSide

        return FakeSide(find_gpu(gpu))
    from .stand_in_side import StandInSide

    return StandInSide()


Runner = Callable[[Any, Mapping[str, Any]], dict[str, Any]]


def _operators() -> Runner:
    from .operators import operators, run_operator

    found = operators()

    def run(side: Any, order: Mapping[str, Any]) -> dict[str, Any]:
        if order.get("list"):
            return {"names": list(found)}
        side.begin()
        samples = run_operator(found[order["name"]], side, order["samples"])
        return {"outcome": "ok", "samples": samples, "not_modelled": side.not_modelled()}

    return run


def _steps() -> Runner:
    from benchmarks.steps.registry import STEPS

    from .steps import run_step

    for step in STEPS:
        step.load()  # once, and not in each child

    def run(side: Any, order: Mapping[str, Any]) -> dict[str, Any]:
        return run_step(order, side)

    return run


_RUNS = {"operators": _operators, "steps": _steps}

if __name__ == "__main__":
    main(sys.argv[1:])
