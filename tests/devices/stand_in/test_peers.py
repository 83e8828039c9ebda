"""Cards of one node: whether they reach each other's memory, and what PyTorch makes of it."""

import ctypes

import pytest
import torch
import torch.distributed as dist

from pytest_membudget.devices.stand_in.libraries import StandInLibraries
from pytest_membudget.results.varied import PEERS
from pytest_membudget.units import MIB

CARD = torch.device("cuda:0")
NVSWITCH = ["A100-80GB", "H100-80GB", "B200-180GB"]


def what_is_reached():
    libraries, found = StandInLibraries(), []
    for other in (False, True):
        libraries.vary(other=other)
        found += [torch.cuda.can_device_access_peer(*pair) for pair in ((0, 1), (1, 0))]
    return found, libraries.asked()


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        *((gpu, [[True] * 4, []]) for gpu in NVSWITCH),
        ("RTX-4090", [[False] * 4, []]),
        ("L4", [[False, False, True, True], [PEERS]]),
    ],
)
def test_cards_on_nvswitch_reach_each_other_geforce_cards_do_not_and_others_may(stand_in, gpu, expected):
    assert stand_in(what_is_reached, gpu=gpu, count=2) == expected


def copied_across():
    given = torch.ones(4096, 4096, device="cuda:0")
    kept = torch.empty(4096, 4096, device="cuda:1")
    torch.cuda.reset_peak_memory_stats(0)
    kept.copy_(given.t())
    return torch.cuda.max_memory_allocated(0) - given.nbytes


@pytest.mark.parametrize(("gpu", "expected"), [("H100-80GB", 0), ("RTX-4090", 64 * MIB)])
def test_a_copy_to_a_card_that_is_reached_has_no_temporary(stand_in, gpu, expected):
    """copy_requires_temporaries (aten/src/ATen/native/cuda/Copy.cu): else it is made contiguous first."""
    assert stand_in(copied_across, gpu=gpu, count=2) == expected


def access_by_hand():
    torch.empty(1, device="cuda:0")
    cuda, value = ctypes.CDLL(None), ctypes.c_int()
    cuda.cudaSetDevice(0)
    calls = [
        "cudaDeviceDisablePeerAccess",
        *["cudaDeviceEnablePeerAccess"] * 2,
        "cudaDeviceDisablePeerAccess",
    ]
    codes = [getattr(cuda, name)(1, 0) for name in calls]
    attributes = []
    for attribute in range(6):
        code = cuda.cudaDeviceGetP2PAttribute(ctypes.byref(value), attribute, 0, 1)
        attributes.append(code or [value.value])
    return codes, attributes


def test_access_is_given_once_and_its_attributes_are_known(stand_in):
    """705 is cudaErrorPeerAccessNotEnabled, 704 AlreadyEnabled, 101 InvalidDevice, 1 InvalidValue."""
    assert stand_in(access_by_hand, gpu="H100-80GB", count=2) == [
        [705, 0, 704, 0],
        [1, [0], [1], [1], [1], 1],
    ]
    assert stand_in(access_by_hand, gpu="RTX-4090", count=2) == [[101] * 4, [1, [0], [0], [0], [0], 1]]


def links():
    nvml, value = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_int()
    one, other = ctypes.c_void_p(), ctypes.c_void_p()
    nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(one))
    nvml.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(other))
    nvml.nvmlDeviceGetP2PStatus(one, other, 2, ctypes.byref(value))
    status, active, switches = value.value, 0, 0
    for link in range(18):
        if nvml.nvmlDeviceGetNvLinkState(one, link, ctypes.byref(value)) == 0:
            active += value.value
        if nvml.nvmlDeviceGetNvLinkRemoteDeviceType(one, link, ctypes.byref(value)) == 0:
            switches += value.value == 2
    return status, active, switches


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [("A100-80GB", [0, 12, 12]), ("H100-80GB", [0, 18, 18]), ("RTX-4090", [2, 0, 0])],
)
def test_nvml_has_the_links_of_the_card(stand_in, gpu, expected):
    """NVML_P2P_STATUS_OK or ...GPU_NOT_SUPPORTED; links of NVLink 3 and 4, each with a switch at its end."""
    assert stand_in(links, gpu=gpu, count=2) == expected


def places_on_the_bus():
    nvml, handle, info = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), (ctypes.c_char * 68)()
    nvml.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(handle))
    status = nvml.nvmlDeviceGetPciInfo_v3(handle, info), nvml.nvmlDeviceGetPciInfo_v3(None, info)
    return *status, info[:13].decode(), [*memoryview(bytes(info)[16:28]).cast("I")], info[36:52].decode()


def test_nvml_has_the_cards_places_on_the_bus(stand_in):
    """nvmlPciInfo_t, which FBGEMM links: domain, bus and device, as text of two lengths too."""
    assert stand_in(places_on_the_bus, gpu="H100-80GB", count=2) == [
        0, 2, "0000:02:00.0\0", [0, 2, 0], "00000000:02:00.0",
    ]  # fmt: skip


def reserved_in_expandable_segments():
    torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    return torch.cuda.memory_reserved()


@pytest.mark.parametrize("gpu", ["A100-80GB", "H100-80GB"])
def test_expandable_segments_need_no_fabric(stand_in, gpu):
    """64 MiB are a multiple of the 20 MiB that such a segment grows by but for the last: 80 MiB."""
    environ = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}

    assert stand_in(reserved_in_expandable_segments, gpu=gpu, count=2, imported_with=environ) == 80 * MIB


def what_multicast_is_for():
    from torch._C._autograd import DeviceType
    from torch._C._distributed_c10d import _SymmetricMemory

    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    nccl = dist.group.WORLD._get_backend(torch.device("cuda"))
    taken = [_SymmetricMemory.has_multicast_support(DeviceType.CUDA, 0), nccl.supports_tensor_alloc(CARD)]
    if taken[1]:
        pool = torch.cuda.MemPool(nccl.mem_allocator)
        with torch.cuda.use_mem_pool(pool):
            torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
        taken.append(torch.cuda.max_memory_reserved())
    return taken


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        ("H100-80GB", [True, True, 20 * MIB]),
        ("B200-180GB", [True, True, 20 * MIB]),
        ("A100-80GB", [False, False]),
        ("RTX-4090", [False, False]),
    ],
)
def test_nvswitch_has_multicast_since_hopper(stand_in, gpu, expected):
    """ProcessGroupNCCL::supportsTensorAlloc asks for it, and NCCL's allocator is refused without.

    A block of more than 1 MiB and less than 10 MiB is cut out of a segment of 20 MiB (kLargeBuffer).
    """
    assert stand_in(what_multicast_is_for, gpu=gpu) == expected
