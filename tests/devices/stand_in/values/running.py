"""Runs a function of a test module in a process on the stand-in, with values followed."""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import torch

from pytest_membudget.devices.stand_in.host.tensors import HostTensors
from pytest_membudget.devices.stand_in.values.values import Values
from pytest_membudget.tracking.running_code.source import users_source


def run_following(path, name, args):
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    values = Values(users_source())
    host = HostTensors(values.following)
    host.install()
    values.install()
    values.begin()
    module.virtual_device = SimpleNamespace(
        refused=values.refused, _mode=SimpleNamespace(shapes=values.following.shapes)
    )
    value = getattr(module, name)(*args)
    return {
        "value": value,
        "caveats": [
            caveat.to_json() for one in (values, host) for caveat in one.caveats(str(Path(path).parent))
        ],
        "peak_bytes": torch.cuda.max_memory_allocated(),
    }
