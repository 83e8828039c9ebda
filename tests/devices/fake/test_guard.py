"""The stand-in CUDA guard and accelerator; each in a process of its own, which they change for good."""

import ctypes
import subprocess
import sys

import pytest
import torch

from pytest_membudget.devices.fake import guard
from pytest_membudget.errors import UnsupportedTorch


def in_new_process(code):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


LOOK = """
import os, torch
from pytest_membudget.devices.fake import guard
def is_registered():
    return bool(guard._guard_registry()[guard._CUDA])
"""


def test_a_guard_is_registered_and_registering_it_again_changes_nothing():
    code = LOOK + (
        "guard.install_cuda_guard(); first = guard._guard_registry()[guard._CUDA]\n"
        "guard.install_cuda_guard(); second = guard._guard_registry()[guard._CUDA]\n"
        "print(is_registered(), first == second, flush=True); os._exit(0)"
    )

    assert in_new_process(code) == ["True", "True"]


def test_the_accelerator_is_the_stand_in():
    code = LOOK + (
        "guard.register_stand_in_accelerator(); guard.register_stand_in_accelerator()\n"
        "print(torch._C._get_privateuse1_backend_name(), flush=True); os._exit(0)"
    )

    assert in_new_process(code) == [guard.STAND_IN]


def test_a_backend_of_the_users_own_is_left_alone():
    code = LOOK + (
        "torch.utils.rename_privateuse1_backend('mine'); guard.register_stand_in_accelerator()\n"
        "print(torch._C._get_privateuse1_backend_name(), flush=True); os._exit(0)"
    )

    assert in_new_process(code) == ["mine"]


def test_a_torch_without_the_registry_is_unsupported(monkeypatch):
    monkeypatch.setattr(guard, "_REGISTRY", "no_such_symbol")

    with pytest.raises(UnsupportedTorch, match=r"has no c10 device-guard registry at .*libc10.so"):
        guard.install_cuda_guard()


def test_a_torch_without_the_library_is_unsupported(monkeypatch, tmp_path):
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "torch" / "__init__.py"))

    with pytest.raises(UnsupportedTorch, match="on Linux"):
        guard.install_cuda_guard()


def test_a_torch_that_keeps_the_stand_in_is_unsupported(monkeypatch):
    registry = (ctypes.c_void_p * guard._DEVICE_TYPES)()
    monkeypatch.setattr(guard, "_guard_registry", lambda: registry)
    monkeypatch.setattr(torch._C, "_ensureCUDADeviceGuardSet", lambda: None)

    with pytest.raises(UnsupportedTorch, match="did not replace the stand-in CUDA guard"):
        guard.install_cuda_guard()
