"""What estimates are made with, and what is said where they cannot be made."""

import os
from pathlib import Path

import pytest

from pytest_membudget.devices import choice
from pytest_membudget.devices.stand_in.building import Built, CannotBuild
from pytest_membudget.devices.torch_build.build import TorchBuild
from pytest_membudget.errors import UsageMistake

CUDA_BUILD = TorchBuild(Path("/folder"), "2.13.0+cu130", cuda="13.0")
CPU_BUILD = TorchBuild(Path("/site-packages"), "2.13.0+cpu")


@pytest.fixture
def here(monkeypatch):
    """``here(own, workers, libraries)``: the environment's torch, workers' torch, and the built libraries."""

    def give(found):
        if isinstance(found, Exception):
            raise found
        return found

    def set_up(own, workers, libraries):
        monkeypatch.setattr(choice, "environments_torch", lambda: own)
        monkeypatch.setattr(choice, "workers_torch", lambda environment: give(workers))
        monkeypatch.setattr(choice, "built_libraries", lambda environment, say: give(libraries))
        choice.find_stand_in.cache_clear()

    yield set_up
    choice.find_stand_in.cache_clear()


def test_a_cuda_build_of_the_environment_is_named_once(here, tmp_path):
    here(CUDA_BUILD, CUDA_BUILD, Built(tmp_path))

    found = choice.find_stand_in()

    assert (found.torch, found.libraries) == (CUDA_BUILD, Built(tmp_path))
    assert found.header == "by the code of torch 2.13.0+cu130"


def test_another_torch_than_the_environments_is_named_beside_it(here, tmp_path):
    here(CPU_BUILD, CUDA_BUILD, Built(tmp_path))

    assert choice.find_stand_in().header == (
        "by the code of torch 2.13.0+cu130, next to the environment's 2.13.0+cpu"
    )


def test_without_a_cuda_build_nothing_is_estimated(here, tmp_path):
    here(CPU_BUILD, UsageMistake("run this command"), Built(tmp_path))

    with pytest.raises(UsageMistake, match="run this command"):
        choice.find_stand_in()


def test_without_libraries_the_reason_is_reported(here):
    here(CUDA_BUILD, CUDA_BUILD, CannotBuild("there is no C compiler: install gcc"))

    with pytest.raises(UsageMistake, match="there is no C compiler: install gcc"):
        choice.find_stand_in()


def test_a_folder_whose_name_is_no_utf8_is_refused(here, tmp_path, monkeypatch):
    """Its bytes are those of another locale: PyTorch's record of allocations cannot name its files."""
    folder = os.fsencode(tmp_path) + b"/p\xe4th"
    os.mkdir(folder)
    monkeypatch.chdir(os.fsdecode(folder))
    here(CUDA_BUILD, CUDA_BUILD, Built(tmp_path))

    with pytest.raises(UsageMistake, match="rename it, or set PYTHONUTF8=1"):
        choice.find_stand_in()
