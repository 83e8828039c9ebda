"""A process with the stand-in, which runs functions of test modules in children of its own.

Run by the ``trace`` fixture: orders and answers are JSON lines on standard input and output.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path

from pytest_membudget.devices.stand_in.device import StandInDevice
from pytest_membudget.hardware.gpus import find_gpu
from tests.in_child import found_in_child


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what bodies print is not an answer
    device = StandInDevice(find_gpu("H100-80GB"))
    device.install()
    modules = {}
    for line in sys.stdin:
        order = json.loads(line)
        path = order["path"]
        if path not in modules:
            modules[path] = load(path)
        answer = found_in_child(lambda: run(device, modules[path], order), timeout=120)  # noqa: B023 - called at once
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
    ranks = {
        "rank": order["rank"],
        "world_size": order["world_size"],
        "rank0_broadcasts": order["rank0_broadcasts"],
    }
    device.begin(find_gpu(order["gpu"]), limited=order["limited"], **ranks)
    value = getattr(module, order["name"])(*order["args"])
    report = device.end(metric=order["metric"], root=str(Path(order["path"]).parent))
    answer = {"report": report.to_json(), "value": value}
    return {
        **answer,
        "representatives": device.representative_ranks(),
        "rank_assumption": "".join(one.text for one in device.rank_caveats()),
        "broadcasts": device.broadcasts(),
    }


if __name__ == "__main__":
    main()
