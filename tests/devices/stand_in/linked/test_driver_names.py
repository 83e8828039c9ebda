"""Functions of the driver that are asked for by name: by those who will ask."""

from pytest_membudget.devices.stand_in.linked.driver_names import asking_libraries, driver_names


def test_names_are_texts_of_their_own(tmp_path):
    path = tmp_path / "library.so"
    path.write_bytes(b"\0cuInit\0cuMemAlloc_v2\0see cuMemFree\0cuda\0cudnnCreate\0cuCtxPushCurrent")

    assert driver_names([path]) == {"cuInit", "cuMemAlloc_v2"}


def test_pytorch_s_and_cudnn_s_libraries_ask(tmp_path):
    for name in ("libc10_cuda.so", "libcudnn.so.9", "libcudnn_graph.so.9"):
        (tmp_path / name).touch()
    installed = {"libcudnn.so.9": tmp_path / "libcudnn.so.9", "libnccl.so.2": tmp_path / "libnccl.so.2"}

    found = asking_libraries(tmp_path, installed)

    assert [path.name for path in found] == ["libc10_cuda.so", "libcudnn_graph.so.9"]
    assert asking_libraries(tmp_path / "elsewhere", {}) == ()


def test_what_pytorch_asks_for_is_found(torch_folder):
    """c10/cuda/driver_api.h, torch 2.11 to 2.15: expandable segments, and multicast of symmetric memory."""
    names = driver_names([torch_folder / "lib" / "libc10_cuda.so"])

    assert {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMulticastBindMem"} <= names
