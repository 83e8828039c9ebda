"""The workspace of a convolution in cuDNN, as cuDNN itself plans it for the card: exact, without a GPU.

PyTorch takes the first plan of cuDNN's heuristics that its filter lets pass, and allocates that plan's
workspace through its own allocator for the time of the call (aten/src/ATen/native/cudnn/Conv_v8.cpp of
pytorch/pytorch). The same questions are asked here. Held against a recorded history: the six workspaces of
JasperSolt/EoR_NN's snapshot.pickle are given to the byte (torch 2.3 there, cuDNN 9.19 and 9.26 here).
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ...hardware.gpus import Gpu
from .cudnn_library import (
    BOOLEAN,
    CHARACTER,
    CONVOLUTION_MODE,
    DATA_TYPE,
    DESCRIPTOR,
    DOUBLE,
    FLOAT,
    HEURISTIC_MODE,
    INT64,
    NUMERICAL_NOTE,
    CudnnError,
    Question,
    find_cudnn,
)

# cudnnBackendDescriptorType_t
_CONVOLUTION, _ENGINE, _CONFIG, _HEURISTICS, _PLAN, _GRAPH, _TENSOR, _DEVICE = 1, 2, 3, 4, 5, 15, 17, 38
# cudnnBackendAttributeName_t
_HEURISTICS_ATTRIBUTES = 200
_CONFIG_ENGINE, _ENGINE_NOTES = 300, 1303
_PLAN_CONFIG, _PLAN_WORKSPACE, _PLAN_DEVICE = 401, 402, 407
_GRAPH_OPERATIONS = 801
_DEVICE_JSON = 2702
# cudnnBackendHeurMode_t: what is asked first, and what if none of that can be planned
_INSTANT, _MODE_B, _FALLBACK = 0, 1, 2
# cudnnBackendNumericalNote_t
_TENSOR_CORE, _DOWN_CONVERT, _NONDETERMINISTIC = 0, 1, 4
_MOST_NOTES = 32
_CROSS_CORRELATION = 1
#: cudnnDataType_t
_TYPES: Final = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 9}
#: PyTorch's ``getAlignment`` for an address that the allocator gives
_ALIGNMENT: Final = 32


class Direction(Enum):
    """The descriptor type, the first of its attributes, and x, w and y's places among them."""

    FORWARD = (10, 700, (4, 3, 5))
    INPUT_GRADIENT = (12, 706, (4, 3, 5))
    WEIGHT_GRADIENT = (11, 712, (4, 3, 5))


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution from ``x`` by ``w`` to ``y``, or one of its gradients; shapes with batch and channels."""

    direction: Direction
    x: tuple[int, ...]
    w: tuple[int, ...]
    y: tuple[int, ...]
    padding: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    dtype: str
    channels_last: bool
    deterministic: bool = False
    allow_tf32: bool = True


def workspace_bytes(convolution: Convolution, gpu: Gpu) -> int | None:
    """What the plan that PyTorch takes needs; None where there is no cuDNN to ask, or it has no plan.

    With ``torch.backends.cudnn.benchmark`` PyTorch tries all plans at the first call of a shape, in a
    workspace that is large enough for each: see :func:`largest_workspace_bytes`.
    """
    return next(iter(_planned(convolution, gpu.capability, gpu.multiprocessor_count, False)), None)


def largest_workspace_bytes(convolution: Convolution, gpu: Gpu) -> int | None:
    """The largest workspace of all plans that PyTorch's filter lets pass; None as above."""
    return max(_planned(convolution, gpu.capability, gpu.multiprocessor_count, True), default=None)


@functools.lru_cache(maxsize=4096)
def _planned(
    convolution: Convolution, capability: tuple[int, int], multiprocessors: int, every: bool
) -> tuple[int, ...]:
    library = find_cudnn()
    if library is None:
        return ()
    mode = _MODE_B if os.environ.get("TORCH_CUDNN_USE_HEURISTIC_MODE_B") == "1" else _INSTANT
    sizes: list[int] = []
    for asked in (mode, _FALLBACK):
        try:
            with Question(library) as question:
                sizes += _sizes(question, convolution, _properties(capability, multiprocessors), asked, every)
        except CudnnError:
            continue
        if sizes and not every:
            break
    return tuple(sizes)


def _sizes(
    question: Question, convolution: Convolution, properties: str, mode: int, every: bool
) -> list[int]:
    device = question.describe(_DEVICE, (_DEVICE_JSON, CHARACTER, properties.encode()))
    graph = question.describe(_GRAPH, (_GRAPH_OPERATIONS, DESCRIPTOR, [_operation(question, convolution)]))
    heuristics = question.describe(
        _HEURISTICS,
        (_HEURISTICS_ATTRIBUTES + 1, DESCRIPTOR, [graph]),
        (_HEURISTICS_ATTRIBUTES, HEURISTIC_MODE, [mode]),
        (_HEURISTICS_ATTRIBUTES + 4, DESCRIPTOR, [device]),
    )
    sizes: list[int] = []
    for config in question.parts(heuristics, _HEURISTICS_ATTRIBUTES + 2, _CONFIG):
        if _is_filtered(question, config, convolution):
            continue
        try:
            plan = question.describe(
                _PLAN, (_PLAN_CONFIG, DESCRIPTOR, [config]), (_PLAN_DEVICE, DESCRIPTOR, [device])
            )
            sizes += question.values(plan, _PLAN_WORKSPACE, INT64, 1)
        except CudnnError:
            continue
        if not every:
            break
    return sizes


def _is_filtered(question: Question, config: ctypes.c_void_p, convolution: Convolution) -> bool:
    """``filterEngineConfigs``."""
    engine = question.part(config, _CONFIG_ENGINE, _ENGINE)
    notes = question.values(engine, _ENGINE_NOTES, NUMERICAL_NOTE, _MOST_NOTES)
    if convolution.deterministic and _NONDETERMINISTIC in notes:
        return True
    without_tf32 = convolution.dtype == "float32" and not convolution.allow_tf32
    return _DOWN_CONVERT in notes or (without_tf32 and _TENSOR_CORE in notes)


def _operation(question: Question, convolution: Convolution) -> ctypes.c_void_p:
    kind, first, places = convolution.direction.value
    shapes = convolution.x, convolution.w, convolution.y
    operands = [
        (first + place, DESCRIPTOR, [_tensor(question, shape, ord(name), convolution)])
        for name, place, shape in zip("xwy", places, shapes, strict=True)
    ]
    scale = DOUBLE if convolution.dtype == "float64" else FLOAT
    return question.describe(
        kind,
        *operands,
        (first + 2, DESCRIPTOR, [_geometry(question, convolution)]),
        (first, scale, [1.0]),
        (first + 1, scale, [0.0]),
    )


def _tensor(
    question: Question, shape: tuple[int, ...], identity: int, convolution: Convolution
) -> ctypes.c_void_p:
    return question.describe(
        _TENSOR,
        (900, INT64, [_ALIGNMENT]),
        (901, DATA_TYPE, [_TYPES[convolution.dtype]]),
        (902, INT64, shape),
        (903, INT64, _strides(shape, convolution.channels_last)),
        (906, INT64, [identity]),
        (907, BOOLEAN, [False]),
    )


def _geometry(question: Question, convolution: Convolution) -> ctypes.c_void_p:
    """Halves are added up in fp32 (``getConvDescriptor``)."""
    computed = "float64" if convolution.dtype == "float64" else "float32"
    return question.describe(
        _CONVOLUTION,
        (100, DATA_TYPE, [_TYPES[computed]]),
        (101, CONVOLUTION_MODE, [_CROSS_CORRELATION]),
        (102, INT64, convolution.dilation),
        (103, INT64, convolution.stride),
        (104, INT64, convolution.padding),
        (105, INT64, convolution.padding),
        (106, INT64, [len(convolution.stride)]),
    )


def _strides(shape: tuple[int, ...], channels_last: bool) -> list[int]:
    order = [0, *range(2, len(shape)), 1] if channels_last else range(len(shape))
    strides, step = [0] * len(shape), 1
    for dimension in reversed(order):
        strides[dimension] = step
        step *= shape[dimension]
    return strides


def _properties(capability: tuple[int, int], multiprocessors: int) -> str:
    """The card as cuDNN's JSON has it.

    Of all fields only the capability was seen to change a convolution's workspace (9.26), and on Hopper the
    clocks, by less than 0.5 MB in 3 of 216 layers: they are those of the SXM cards (deviceQuery). The rest
    are the limits of the CUDA C++ Programming Guide, and neutral values.
    """
    return json.dumps({
        "maxGridSize": [2**31 - 1, 65535, 65535],
        "maxBlockSize": [1024, 1024, 64],
        "regsPerBlock": 65536,
        "multiProcessorCount": multiprocessors,
        "warpSize": 32,
        "maxSharedMemoryPerBlock": 49152,
        "maxSharedMemoryPerBlockOptin": _SHARED_BYTES.get(capability, _SHARED_BYTES[8, 6]),
        "reservedSharedMemoryPerBlock": 1024,
        "maxRegistersPerSM": 65536,
        "maxCtasPerSM": 32,
        "maxThreadsPerBlock": 1024,
        "maxThreadsPerSM": 2048,
        "pciDeviceId": 0,
        "isTccDriver": 0,
        "supportCoopLaunch": 1,
        "smClockRateKHz": 1980000 if capability >= (9, 0) else 1410000,
        "memClockRateKHz": 2619000 if capability >= (9, 0) else 1593000,
        "l2CacheSize": 50 * 2**20 if capability >= (9, 0) else 40 * 2**20,
        "deviceName": "",
        "cudaDeviceId": 0,
        "deviceVer": capability[0] * 100 + capability[1] * 10,
        "driverVer": 13000,
        "totalGlobalMem": 80 * 2**30,
    })  # fmt: skip


#: Shared memory that a block may have at most.
_SHARED_BYTES: Final = {
    (7, 0): 96 * 1024,
    (7, 5): 64 * 1024,
    (8, 0): 163 * 1024,
    (8, 6): 99 * 1024,
    (8, 9): 99 * 1024,
    (9, 0): 227 * 1024,
    (10, 0): 227 * 1024,
    (12, 0): 99 * 1024,
}
