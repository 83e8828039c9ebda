"""Functions of the driver and of NVML that are looked up by name: in the files of those who will."""

import pytest

from pytest_membudget.devices.stand_in.linked.looked_up_names import (
    DRIVER,
    NVML,
    asking_files,
    looked_up_names,
)


def test_names_are_texts_of_their_own(tmp_path):
    path = tmp_path / "library.so"
    path.write_bytes(b"\0cuInit\0cuMemAlloc_v2\0see cuMemFree\0cuda\0cudnnCreate\0cuCtxPushCurrent")

    assert looked_up_names(DRIVER, [path]) == {"cuInit", "cuMemAlloc_v2"}


def test_pytorch_s_and_cudnn_s_libraries_ask(tmp_path):
    for name in ("libc10_cuda.so", "libcudnn.so.9", "libcudnn_graph.so.9"):
        (tmp_path / name).touch()
    installed = {"libcudnn.so.9": tmp_path / "libcudnn.so.9", "libnccl.so.2": tmp_path / "libnccl.so.2"}

    found = asking_files(DRIVER, tmp_path, installed)

    assert [path.name for path in found] == ["libc10_cuda.so", "libcudnn_graph.so.9"]
    assert asking_files(DRIVER, tmp_path / "elsewhere", {}) == ()


def test_what_pytorch_asks_for_is_found(torch_folder):
    """c10/cuda/driver_api.h, torch 2.11 to 2.15: expandable segments, and multicast of symmetric memory."""
    names = looked_up_names(DRIVER, [torch_folder / "lib" / "libc10_cuda.so"])

    assert {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMulticastBindMem"} <= names


@pytest.mark.parametrize("name", ["pynvml.py", "pynvml/nvml.py"])
def test_pynvml_asks_as_a_module_and_as_a_package(tmp_path, monkeypatch, name):
    source = tmp_path / name
    source.parent.mkdir(exist_ok=True)
    source.parent.joinpath("__init__.py").touch()
    source.write_text('c_nvmlMemory_t = 1\nfn = _nvmlGetFunctionPointer("nvmlDeviceGetTemperature")')
    monkeypatch.syspath_prepend(tmp_path)

    files = asking_files(NVML, tmp_path / "lib", {})

    assert source in files
    assert looked_up_names(NVML, files) == {"nvmlDeviceGetTemperature"}
