"""What estimates are made with, and what is said where they cannot be made."""

from pathlib import Path

import pytest

from pytest_membudget.devices import choice
from pytest_membudget.devices.stand_in.building import CannotBuild
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
    here(CUDA_BUILD, CUDA_BUILD, tmp_path)

    found = choice.find_stand_in()

    assert (found.torch, found.libraries) == (CUDA_BUILD, tmp_path)
    assert found.header == "by the code of torch 2.13.0+cu130"


def test_another_torch_than_the_environments_is_named_beside_it(here, tmp_path):
    here(CPU_BUILD, CUDA_BUILD, tmp_path)

    assert choice.find_stand_in().header == (
        "by the code of torch 2.13.0+cu130, next to the environment's 2.13.0+cpu"
    )


UNKNOWN = TorchBuild(Path("/folder"), "2.30.0+cu140", cuda="14.0")
UNREADABLE = "libtorch_cuda.so is no shared object"


@pytest.mark.parametrize(
    ("workers", "libraries", "linked", "reason"),
    [
        (UsageMistake("run this command"), None, None, "run this command"),
        (CUDA_BUILD, CannotBuild("no C compiler: install gcc"), None, "no C compiler: install gcc"),
        (CUDA_BUILD, None, CannotBuild(UNREADABLE), r"libtorch_cuda\.so is no shared object"),
        (UNKNOWN, None, None, r"built for CUDA 14\.0"),
    ],
)
def test_what_is_missing_is_reported(here, tmp_path, workers, libraries, linked, reason):
    here(CPU_BUILD, workers, libraries or tmp_path, linked)

    with pytest.raises(UsageMistake, match=reason):
        choice.find_stand_in()
