"""Tests of tests/devices/traced, run on the stand-in too: both devices have one behaviour."""

import importlib.util
from pathlib import Path

_VIRTUAL = Path(__file__).parents[2] / "fake"


def of_fake_tensors(name, without=()):
    """The test functions of a module there, but ``without`` those of which the module here says why."""
    spec = importlib.util.spec_from_file_location(name, _VIRTUAL / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = {key: value for key, value in vars(module).items() if key.startswith("test_")}
    assert set(without) < set(found)
    return {key: value for key, value in found.items() if key not in without}
