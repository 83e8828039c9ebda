"""Which device estimates are made on, and what is said where it is not the better one."""

import os

import pytest

from pytest_membudget.devices import choice as device_choice
from pytest_membudget.devices.choice import choose_device
from pytest_membudget.devices.stand_in.building import Built, CannotBuild
from pytest_membudget.errors import UsageMistake
from pytest_membudget.hardware.gpus import find_gpu


def build(found):
    if isinstance(found, Built):
        return found
    raise CannotBuild(found)


@pytest.fixture
def here(monkeypatch):
    """``here(cuda, found)``: a torch built for ``cuda``, and what building the libraries gives."""

    def set_up(cuda, found):
        monkeypatch.setattr(device_choice, "cuda_version_of_torch", lambda: cuda)
        monkeypatch.setattr(device_choice, "built_libraries", lambda environment, say: build(found))
        device_choice._stand_in.cache_clear()

    yield set_up
    device_choice._stand_in.cache_clear()


@pytest.fixture
def libraries(tmp_path):
    return Built(tmp_path)


def test_a_cuda_build_is_run_on_the_stand_in(here, libraries):
    here("13.2", libraries)
    choice = choose_device("auto")

    assert (choice.name, choice.libraries) == ("stand-in", libraries)
    assert "CUDA 13.2" in choice.why


def test_a_build_without_cuda_is_run_on_fake_tensors_and_says_what_would_be_exact(here, libraries):
    here(None, libraries)
    choice = choose_device("auto")

    assert choice.name == "fake"
    assert "a CUDA build, which needs no GPU, gives exact figures" in choice.why


def test_without_libraries_the_reason_is_reported(here):
    here("13.2", "no C compiler was found")

    assert choose_device("auto").why == "by fake tensors: no C compiler was found"


def test_a_folder_whose_name_is_no_utf8_has_fake_tensors(here, libraries, tmp_path, monkeypatch):
    """Its bytes are those of another locale: PyTorch's record of allocations cannot name its files."""
    folder = os.fsencode(tmp_path) + b"/p\xe4th"
    os.mkdir(folder)
    monkeypatch.chdir(os.fsdecode(folder))
    here("13.2", libraries)
    choice = choose_device("auto")

    assert choice.name == "fake"
    assert "rename it, or set PYTHONUTF8=1" in choice.why


def test_a_stand_in_that_is_asked_for_and_cannot_run_is_a_mistake(here):
    here("13.2", "no C compiler was found")

    with pytest.raises(UsageMistake, match=r"no C compiler was found; write --membudget-device=fake"):
        choose_device("stand-in")


def test_fake_tensors_can_be_asked_for(here, libraries):
    here("13.2", libraries)

    assert choose_device("fake").name == "fake"


def test_a_card_that_is_not_nvidias_has_fake_tensors(here, libraries):
    here("13.2", libraries)
    choice = choose_device("auto")

    assert choice.for_card(find_gpu("MI300X")).name == "fake"
    assert choice.for_card(find_gpu("A100-80GB")) is choice
