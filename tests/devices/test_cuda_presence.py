"""Whether there may be a CUDA device, by what the driver leaves in the file system and the environment."""

import pytest

from pytest_membudget.devices import cuda_presence
from pytest_membudget.devices.cuda_presence import why_no_cuda


@pytest.fixture
def driver(monkeypatch, tmp_path):
    """``driver(there)``: whether the driver's file exists."""

    def make(there):
        path = tmp_path / "nvidiactl"
        if there:
            path.touch()
        monkeypatch.setattr(cuda_presence, "_DEVICE_FILES", (str(path),))

    return make


def test_a_machine_with_the_drivers_file_may_have_one(driver):
    driver(True)

    assert why_no_cuda({}) is None
    assert why_no_cuda({"CUDA_VISIBLE_DEVICES": "1,0"}) is None


def test_a_machine_without_it_has_none(driver):
    driver(False)

    assert why_no_cuda({}) == "no CUDA: this machine has no NVIDIA device"


@pytest.mark.parametrize("value", ["", "-1", " ", "NoDevFiles"])
def test_hidden_devices_are_not_there(driver, value):
    driver(True)

    assert why_no_cuda({"CUDA_VISIBLE_DEVICES": value}) == (
        f"no CUDA: CUDA_VISIBLE_DEVICES={value!r} hides all devices"
    )


def test_the_stand_in_is_no_device(driver):
    driver(True)

    assert why_no_cuda({"LD_PRELOAD": "/usr/lib/libx.so /here/libmembudget_stand_in.so"}) == (
        "no CUDA: LD_PRELOAD has libmembudget_stand_in.so, a stand-in for CUDA"
    )
