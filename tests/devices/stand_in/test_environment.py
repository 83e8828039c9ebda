"""The environment of a process on the stand-in."""

from pathlib import Path

import pytest

from pytest_membudget.devices.stand_in import environment
from pytest_membudget.devices.stand_in.linked.libraries import LinkedLibraries
from pytest_membudget.devices.stand_in.linked.release_numbers import ReleaseNumbers
from pytest_membudget.devices.torch_build.build import TorchBuild
from pytest_membudget.hardware.gpus import find_gpu

LINKED = LinkedLibraries(
    (Path("/linked/cublas.so.13"),), ReleaseNumbers(cublas=130101, nccl=22907, cudnn=92000)
)
BUILT = Path("/libraries")
OURS = (
    "/libraries/libmembudget_stand_in.so /linked/cublas.so.13"
    " /libraries/libcuda.so.1 /libraries/libnvidia-ml.so.1"
)
CUDA = TorchBuild(Path("/torch"), "2.13.0+cu130", cuda="13.0")


@pytest.fixture(autouse=True)
def _linked(monkeypatch):
    monkeypatch.setattr(environment, "linked_libraries", lambda torch, built, base: LINKED)


def made(base, torch=CUDA, **arguments):
    return environment.stand_in_environment(BUILT, torch, find_gpu("A100-80GB"), 1, base, **arguments)


def test_the_libraries_come_before_what_was_preloaded():
    assert made({"LD_PRELOAD": "/a.so:/b.so /c.so"})["LD_PRELOAD"] == f"{OURS} /a.so /b.so /c.so"
    assert made({})["LD_PRELOAD"] == OURS


def test_the_variables_of_a_process():
    """Hidden cards of the machine do not hide these; another torch comes first; releases are said."""
    variables = made({"CUDA_VISIBLE_DEVICES": "", "HOME": "/home/me", "PYTHONPATH": "/mine"})

    assert "CUDA_VISIBLE_DEVICES" not in variables
    assert variables["HOME"] == "/home/me"
    assert variables["PYTHONPATH"] == "/torch:/mine"
    assert variables["TRITON_LIBCUDA_PATH"] == "/libraries"
    releases = {"CUDA": "13000", "CUBLAS": "130101", "NCCL": "22907", "CUDNN": "92000"}
    assert {name: variables[f"MEMBUDGET_STAND_IN_{name}"] for name in releases} == releases


def test_inductor_compiles_in_the_process_of_the_test_unless_it_is_told_otherwise():
    name = environment.THREADS_VARIABLE

    assert [made(base)[name] for base in ({}, {name: "4"})] == ["1", "4"]


def test_a_card_has_its_own_capacity_or_none():
    gpu = find_gpu("A100-80GB")

    limited, unlimited = environment.cards_text(gpu, 2), environment.cards_text(gpu, unlimited=True)

    assert limited.count("\n") == 1
    assert limited.count(f"capacity_bytes={gpu.total_bytes - gpu.context_bytes}") == 2
    assert f"total_bytes={gpu.total_bytes};" in unlimited
    assert f"capacity_bytes={16 * 2**40}" in unlimited
