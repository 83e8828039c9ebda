"""The workspace of a convolution, as cuDNN's own library says it when it is asked directly.

PyTorch takes the first plan of cuDNN's heuristics that its filter lets pass, and allocates that plan's
workspace for the time of the call (aten/src/ATen/native/cudnn/Conv_v8.cpp, torch 2.11 to 2.15). The same is
asked here, in a process of the stand-in but of the real functions: for a card described in JSON (cuDNN 9.8,
"deviceless ahead-of-time compilation"). Of plans that NVRTC would compile, the engine's configuration has
the same size (test_cudnn_plans.py). Numbers are those of cudnn_graph.h of cuDNN 9.26.
"""

import ctypes
import json
import os
import re
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path

import pytest

from pytest_membudget.devices.torch_build.installed import workers_torch
from pytest_membudget.errors import UsageMistake
from pytest_membudget.hardware.gpus import find_gpu

# cudnnBackendAttributeType_t
DATA_TYPE, BOOLEAN, INT64, FLOAT, DOUBLE = 1, 2, 3, 4, 5
CONVOLUTION_MODE, HEURISTIC_MODE, NUMERICAL_NOTE, DESCRIPTOR = 7, 8, 11, 15
BEHAVIOR_NOTE, CHARACTER = 19, 24
#: What values of a type are in C; the others are enumerations.
IN_C = {
    BOOLEAN: ctypes.c_bool,
    INT64: ctypes.c_int64,
    FLOAT: ctypes.c_float,
    DOUBLE: ctypes.c_double,
    DESCRIPTOR: ctypes.c_void_p,
    CHARACTER: ctypes.c_char,
}
# cudnnBackendDescriptorType_t
CONVOLUTION, ENGINE, CONFIG, HEURISTICS, PLAN, GRAPH, TENSOR, DEVICE = 1, 2, 3, 4, 5, 15, 17, 38
# cudnnBackendAttributeName_t
HEURISTICS_MODE, HEURISTICS_GRAPH, HEURISTICS_RESULTS, HEURISTICS_DEVICE = 200, 201, 202, 204
CONFIG_ENGINE, CONFIG_WORKSPACE = 300, 303
PLAN_CONFIG, PLAN_WORKSPACE, PLAN_DEVICE = 401, 402, 407
NUMERICAL_NOTES, BEHAVIOR_NOTES = 1303, 1305
GRAPH_OPERATIONS, DEVICE_JSON = 801, 2702
#: cudnnBackendHeurMode_t: instant, and fallback where none of the first can be planned.
MODES = (0, 2)
# cudnnBackendNumericalNote_t
DOWN_CONVERT, NONDETERMINISTIC = 1, 4
COMPILED = 0  # cudnnBackendBehaviorNote_t
CROSS_CORRELATION = 1
#: cudnnDataType_t
TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 9}
#: PyTorch's ``getAlignment`` for an address that its allocator gives.
ALIGNMENT = 32


def has_cudnn():
    """Whether the workers' torch has cuDNN beside it."""
    try:
        folder = workers_torch(os.environ).folder
    except UsageMistake:
        return False
    return any(folder.glob("nvidia/cudnn/lib/libcudnn.so.*"))


needs_cudnn = pytest.mark.skipif(not has_cudnn(), reason="cuDNN is not installed beside the workers' torch")


class Direction(Enum):
    """The descriptor's type, the first of its attributes, and the places of x, w and y among these."""

    FORWARD = (10, 700, (4, 3, 5))
    INPUT_GRADIENT = (12, 706, (4, 3, 5))
    WEIGHT_GRADIENT = (11, 712, (4, 3, 5))


@dataclass(frozen=True)
class Convolution:
    """A convolution from ``x`` by ``w`` to ``y``, or one of its gradients; shapes with batch and channels."""

    direction: str
    x: tuple
    w: tuple
    y: tuple
    padding: tuple
    stride: tuple
    dilation: tuple
    dtype: str
    channels_last: bool
    deterministic: bool = False


def workspaces_of(stand_in, convolution, gpu="A100-80GB"):
    """The workspaces of all plans that PyTorch's filter lets pass, the one that it takes first."""
    return stand_in(planned_workspaces, asdict(convolution), gpu, gpu=gpu)


def workspace_bytes(stand_in, convolution, gpu="A100-80GB"):
    """The workspace of the plan that PyTorch takes."""
    return workspaces_of(stand_in, convolution, gpu)[0]


def planned_workspaces(convolution, gpu):
    """Runs in a process of the stand-in."""
    asked, sizes = Convolution(**convolution), []
    for mode in MODES:
        try:
            with Question(real_cudnn()) as question:
                sizes += planned(question, asked, properties(find_gpu(gpu)), mode)
        except CudnnError:
            continue
    return sizes


def real_cudnn():
    """The real library, whose functions are found by its handle and not among all that are loaded."""
    import torch

    torch.backends.cudnn.version()
    mapped = re.findall(r"/\S+/libcudnn\.so\.\d+", Path("/proc/self/maps").read_text())
    return ctypes.CDLL(mapped[0].replace("libcudnn.", "libcudnn_graph."))


class CudnnError(Exception):
    """cuDNN has no such engine, or does not take the description."""


class Question:
    """Descriptors that are made for one question and destroyed at its end."""

    def __init__(self, library):
        self._library = library
        self._made = []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        while self._made:
            self._library.cudnnBackendDestroyDescriptor(self._made.pop())

    def describe(self, kind, *attributes):
        """A finished descriptor of ``kind``; each attribute is a name, a type and values."""
        descriptor = self.empty(kind)
        for name, type_, values in attributes:
            count = ctypes.c_int64(len(values))
            check(
                self._library.cudnnBackendSetAttribute(descriptor, name, type_, count, array(type_, values))
            )
        check(self._library.cudnnBackendFinalize(descriptor))
        return descriptor

    def empty(self, kind):
        """A descriptor that cuDNN is to fill."""
        descriptor = ctypes.c_void_p()
        check(self._library.cudnnBackendCreateDescriptor(kind, ctypes.byref(descriptor)))
        self._made.append(descriptor)
        return descriptor

    def values(self, descriptor, name, type_, most):
        """Up to ``most`` numbers of an attribute."""
        numbers = array(type_, [0] * most)
        return list(numbers[: self._read(descriptor, name, type_, most, numbers)])

    def parts(self, descriptor, name, kind):
        """The descriptors of ``kind`` in an attribute that holds any number of them."""
        made = [self.empty(kind) for _ in range(self._read(descriptor, name, DESCRIPTOR, 0, None))]
        return made[: self._read(descriptor, name, DESCRIPTOR, len(made), array(DESCRIPTOR, made))]

    def part(self, descriptor, name, kind):
        """The descriptor of ``kind`` in an attribute that holds one."""
        made = self.empty(kind)
        self._read(descriptor, name, DESCRIPTOR, 1, array(DESCRIPTOR, [made]))
        return made

    def _read(self, descriptor, name, type_, most, numbers):
        count = ctypes.c_int64()
        arguments = descriptor, name, type_, ctypes.c_int64(most), ctypes.byref(count), numbers
        check(self._library.cudnnBackendGetAttribute(*arguments))
        return count.value


def array(type_, values):
    plain = [value.value if type_ == DESCRIPTOR else value for value in values]
    return (IN_C.get(type_, ctypes.c_int) * len(values))(*plain)


def check(status):
    if status:
        raise CudnnError(f"cuDNN status {status}")


def planned(question, convolution, card, mode):
    device = question.describe(DEVICE, (DEVICE_JSON, CHARACTER, card.encode()))
    graph = question.describe(GRAPH, (GRAPH_OPERATIONS, DESCRIPTOR, [operation(question, convolution)]))
    heuristics = question.describe(
        HEURISTICS,
        (HEURISTICS_GRAPH, DESCRIPTOR, [graph]),
        (HEURISTICS_MODE, HEURISTIC_MODE, [mode]),
        (HEURISTICS_DEVICE, DESCRIPTOR, [device]),
    )
    sizes = []
    for config in question.parts(heuristics, HEURISTICS_RESULTS, CONFIG):
        engine = question.part(config, CONFIG_ENGINE, ENGINE)
        if is_filtered(question, engine, convolution):
            continue
        try:
            sizes += planned_size(question, config, engine, device)
        except CudnnError:
            continue
    return sizes


def planned_size(question, config, engine, device):
    if COMPILED in question.values(engine, BEHAVIOR_NOTES, BEHAVIOR_NOTE, 16):
        return question.values(config, CONFIG_WORKSPACE, INT64, 1)
    plan = question.describe(PLAN, (PLAN_CONFIG, DESCRIPTOR, [config]), (PLAN_DEVICE, DESCRIPTOR, [device]))
    return question.values(plan, PLAN_WORKSPACE, INT64, 1)


def is_filtered(question, engine, convolution):
    """``filterEngineConfigs``; TF32 is allowed."""
    notes = question.values(engine, NUMERICAL_NOTES, NUMERICAL_NOTE, 32)
    return DOWN_CONVERT in notes or (convolution.deterministic and NONDETERMINISTIC in notes)


def operation(question, convolution):
    kind, first, places = Direction[convolution.direction].value
    shapes = convolution.x, convolution.w, convolution.y
    operands = [
        (first + place, DESCRIPTOR, [tensor(question, shape, ord(name), convolution)])
        for name, place, shape in zip("xwy", places, shapes, strict=True)
    ]
    scale = DOUBLE if convolution.dtype == "float64" else FLOAT
    return question.describe(
        kind,
        *operands,
        (first + 2, DESCRIPTOR, [geometry(question, convolution)]),
        (first, scale, [1.0]),
        (first + 1, scale, [0.0]),
    )


def tensor(question, shape, identity, convolution):
    return question.describe(
        TENSOR,
        (900, INT64, [ALIGNMENT]),
        (901, DATA_TYPE, [TYPES[convolution.dtype]]),
        (902, INT64, shape),
        (903, INT64, strides(shape, convolution.channels_last)),
        (906, INT64, [identity]),
        (907, BOOLEAN, [False]),
    )


def geometry(question, convolution):
    """Halves are added up in fp32 (``getConvDescriptor``)."""
    computed = "float64" if convolution.dtype == "float64" else "float32"
    return question.describe(
        CONVOLUTION,
        (100, DATA_TYPE, [TYPES[computed]]),
        (101, CONVOLUTION_MODE, [CROSS_CORRELATION]),
        (102, INT64, convolution.dilation),
        (103, INT64, convolution.stride),
        (104, INT64, convolution.padding),
        (105, INT64, convolution.padding),
        (106, INT64, [len(convolution.stride)]),
    )


def strides(shape, channels_last):
    order = [0, *range(2, len(shape)), 1] if channels_last else range(len(shape))
    found, step = [0] * len(shape), 1
    for dimension in reversed(order):
        found[dimension] = step
        step *= shape[dimension]
    return found


def properties(gpu):
    """The card as cuDNN's JSON has it.

    Of all fields only the capability was seen to change a convolution's workspace (9.26), and on Hopper the
    clocks, by less than 0.5 MB in 3 of 216 layers: they are those of the SXM cards (deviceQuery). The rest
    are the limits of the CUDA C++ Programming Guide, and neutral values.
    """
    is_hopper = gpu.capability >= (9, 0)
    return json.dumps({
        "maxGridSize": [2**31 - 1, 65535, 65535],
        "maxBlockSize": [1024, 1024, 64],
        "regsPerBlock": 65536,
        "multiProcessorCount": gpu.multiprocessor_count,
        "warpSize": 32,
        "maxSharedMemoryPerBlock": 49152,
        "maxSharedMemoryPerBlockOptin": (227 if is_hopper else 163) * 1024,
        "reservedSharedMemoryPerBlock": 1024,
        "maxRegistersPerSM": 65536,
        "maxCtasPerSM": 32,
        "maxThreadsPerBlock": 1024,
        "maxThreadsPerSM": 2048,
        "pciDeviceId": 0,
        "isTccDriver": 0,
        "supportCoopLaunch": 1,
        "smClockRateKHz": 1980000 if is_hopper else 1410000,
        "memClockRateKHz": 2619000 if is_hopper else 1593000,
        "l2CacheSize": (50 if is_hopper else 40) * 2**20,
        "deviceName": "",
        "cudaDeviceId": 0,
        "deviceVer": gpu.capability[0] * 100 + gpu.capability[1] * 10,
        "driverVer": 13000,
        "totalGlobalMem": 80 * 2**30,
    })  # fmt: skip
