"""What estimates are made with, and what is said where they cannot be made."""

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
    """``here(own, workers, libraries, linked)``: the environment's torch, workers', and their libraries."""

    def give(found):
        if isinstance(found, Exception):
            raise found
        return found

    def set_up(own, workers, libraries, linked=None):
        monkeypatch.setattr(choice, "environments_torch", lambda: own)
        monkeypatch.setattr(choice, "workers_torch", lambda environment: give(workers))
        monkeypatch.setattr(choice, "built_libraries", lambda environment, say: give(libraries))
        monkeypatch.setattr(choice, "linked_libraries", lambda torch, built, environment: give(linked))
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


def test_libraries_that_cannot_be_written_for_this_torch_are_reported(here, tmp_path):
    here(CUDA_BUILD, CUDA_BUILD, Built(tmp_path), CannotBuild("libtorch_cuda.so is no shared object"))

    with pytest.raises(UsageMistake, match=r"libtorch_cuda\.so is no shared object"):
        choice.find_stand_in()


def test_what_the_machine_lacks_is_reported(here, tmp_path):
    build = TorchBuild(Path("/folder"), "2.30.0+cu140", cuda="14.0")
    here(build, build, Built(tmp_path))

    with pytest.raises(UsageMistake, match=r"built for CUDA 14\.0"):
        choice.find_stand_in()
