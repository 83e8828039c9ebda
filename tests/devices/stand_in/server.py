"""A process with the stand-in's libraries, which runs functions of test modules in children of its own.

Run by the ``stand_in`` fixture: orders and answers are JSON lines on standard input and output.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path

import torch  # noqa: F401 - once, for all children

from pytest_membudget.devices.stand_in.environment import cards_text
from pytest_membudget.devices.stand_in.libraries import StandInLibraries
from pytest_membudget.hardware.gpus import find_gpu
from tests.in_child import found_in_child

TIMEOUT_S = 300


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what bodies print is not an answer
    modules = {}
    for line in sys.stdin:
        order = json.loads(line)
        path = order["path"]
        if path not in modules:
            modules[path] = load(path)
        answer = found_in_child(lambda: run(modules[path], order), timeout=TIMEOUT_S)  # noqa: B023 - called at once
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    os._exit(0)


def load(path):
    sys.path.insert(0, str(Path(path).parent))
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(module, order):
    os.environ.update(order["environ"])
    libraries = StandInLibraries()
    libraries.set_cards(cards_text(find_gpu(order["gpu"]), order["count"], unlimited=order["unlimited"]))
    value = getattr(module, order["name"])(*order["args"])
    return {"value": value, "not_modelled": libraries.not_modelled()}


if __name__ == "__main__":
    main()
