"""A process with the stand-in's libraries, which runs functions of test modules in children of its own.

Run by the fixtures of ``on_cards``: orders and answers are JSON lines on standard input and output.
``device`` as argument: functions run on the device of workers, else with the libraries alone.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path

import torch  # noqa: F401 - once, for all children

from pytest_membudget.devices.stand_in.device import StandInDevice
from pytest_membudget.devices.stand_in.environment import cards_text
from pytest_membudget.devices.stand_in.libraries import StandInLibraries
from pytest_membudget.hardware.gpus import find_gpu
from pytest_membudget.results.answer import TRACED, Answer, Request
from tests.in_child import found_in_child

TIMEOUT_S = 300


def main(kind):
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what bodies print is not an answer
    device = None
    if kind == "device":
        device = StandInDevice(find_gpu("A100-80GB"))
        device.install()
    modules = {}
    for line in sys.stdin:
        order = json.loads(line)
        path = order["path"]
        if path not in modules:
            modules[path] = load(path)
        answer = found_in_child(lambda: run(device, modules[path], order), timeout=TIMEOUT_S)  # noqa: B023 - called at once
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    os._exit(0)


def load(path):
    sys.path.insert(0, str(Path(path).parent))
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(device, module, order):
    os.environ.update(order["environ"])
    gpu, unlimited = find_gpu(order["gpu"]), order["unlimited"]
    libraries, body = StandInLibraries(), getattr(module, order["name"])
    libraries.set_cards(cards_text(gpu, order["count"], unlimited=unlimited))
    if device is None:
        return {
            "value": body(*order["args"]),
            "not_modelled": libraries.not_modelled() + libraries.refused(),
        }
    device.gpu = gpu
    figures_only, metric = order["figures_only"], order["metric"]
    device.begin(
        Request("", "", gpu.name, not unlimited, metric, figures_only=figures_only, **order["ranks"])
    )
    value = body(*order["args"])
    if order["has_end"]:
        device.body_ended()
    report = device.end(metric=order["metric"], root=str(Path(order["path"]).parent))
    answer = device.completed(Answer(TRACED))
    return {
        "value": value,
        "allocations": device._ended.history.digest(),
        "report": report.to_json(),
        "representatives": [*answer.other_ranks.representatives],
        "tried": [*answer.other_ranks.tried],
        "rank_assumption": "".join(one.text for one in answer.other_ranks.caveats),
        "broadcasts": answer.broadcasts,
        "taken": answer.taken,
        "unknown": [*answer.unknown],
    }


if __name__ == "__main__":
    main(sys.argv[1])
