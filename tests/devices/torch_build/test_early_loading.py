"""torch's libraries are there before torch is imported, and are those that its import loads."""

import importlib.util
import os
import subprocess
import sys

import pytest

from pytest_membudget.devices.stand_in.building import built_libraries
from pytest_membudget.devices.stand_in.environment import stand_in_environment
from pytest_membudget.devices.torch_build.early_loading import begin_loading
from pytest_membudget.devices.torch_build.installed import workers_torch
from pytest_membudget.hardware.gpus import find_gpu

#: Prints torch's libraries that are loaded: early, and by the import.
LOADING = """
import sys
from pytest_membudget.devices.torch_build.early_loading import begin_loading


def loaded():
    with open("/proc/self/maps") as lines:
        return {line.split()[-1].rpartition("/")[2] for line in lines if "/torch/lib/" in line}


begin_loading().join()
early = loaded()
assert "torch" not in sys.modules
import torch

assert torch.ones(3, device="cuda").sum().item() >= 0
print(*early)
print(*loaded())
"""


def test_all_but_those_with_python_in_them_are_loaded_early():
    torch, libraries = workers_torch(os.environ), built_libraries(os.environ)
    env = stand_in_environment(libraries, torch, find_gpu("A100-80GB"), 1, os.environ, unlimited=True)
    path = os.pathsep.join([*map(str, torch.import_path), *sys.path])
    run = subprocess.run(
        [sys.executable, "-c", LOADING], env={**env, "PYTHONPATH": path}, capture_output=True, text=True
    )

    assert run.returncode == 0, run.stderr
    early, imported = ({*line.split()} for line in run.stdout.splitlines())
    assert {"libtorch_global_deps.so", "libtorch_cpu.so", "libtorch_cuda.so"} <= early < imported
    assert {name for name in imported - early if "python" not in name} <= {"libtorch.so", "libshm.so"}


@pytest.mark.parametrize("has_folder", [True, False])
def test_what_cannot_be_loaded_is_left_to_the_import(has_folder, tmp_path, monkeypatch):
    (tmp_path / "torch.py").touch()
    spec = importlib.util.spec_from_file_location("torch", tmp_path / "torch.py") if has_folder else None
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    failures = []
    monkeypatch.setattr("threading.excepthook", failures.append)

    begin_loading().join()

    assert not failures
