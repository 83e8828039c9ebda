"""The runtime's structure of properties, as CUDA 12 and 13 lay it out; read without torch."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

from pytest_membudget.devices.stand_in.environment import stand_in_environment
from pytest_membudget.devices.torch_build.installed import workers_torch
from pytest_membudget.hardware.gpus import find_gpu

READ = """
    import ctypes, json, struct, sys

    function, offsets = sys.argv[1], json.loads(sys.argv[2])
    cuda, buffer = ctypes.CDLL(None), ctypes.create_string_buffer(b"x" * 2048, 2048)
    assert getattr(cuda, function)(buffer, 0) == 0
    written = len(buffer.raw.rstrip(b"x"))
    values = {name: struct.unpack_from("<i", buffer.raw, at)[0] for name, at in offsets.items()}
    values["total"] = struct.unpack_from("<Q", buffer.raw, 288)[0]
    print(json.dumps([buffer.raw[:256].split(b"\\0")[0].decode(), written, values]))
    """
#: By offsetof() from the headers of cuda-runtime 12.6 and 12.9, and of 13.2.
OFFSETS = {
    "cudaGetDeviceProperties_v2": {
        "major": 360,
        "multiprocessors": 388,
        "l2": 616,
        "threads": 624,
        "optin": 696,
    },
    "cudaGetDeviceProperties": {
        "major": 360,
        "multiprocessors": 384,
        "l2": 596,
        "threads": 604,
        "optin": 672,
    },
}


@pytest.mark.parametrize(
    ("function", "version", "size_bytes"),
    [("cudaGetDeviceProperties_v2", "12060", 1032), ("cudaGetDeviceProperties", "13000", 1008)],
)
def test_properties_lie_where_this_cuda_has_them(stand_in_libraries, function, version, size_bytes):
    gpu = find_gpu("A100-80GB")
    environment = stand_in_environment(stand_in_libraries, workers_torch(os.environ), gpu, 1, os.environ)
    environment["MEMBUDGET_STAND_IN_CUDA"] = version

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(READ), function, json.dumps(OFFSETS[function])],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    name, written, values = json.loads(done.stdout)
    assert (name, written) == ("NVIDIA A100-SXM4-80GB", size_bytes)
    # deviceQuery of an A100-SXM4-80GB: 108 SMs, 40 MiB of L2, 2,048 threads, 163 KiB of shared memory
    assert values == {
        "major": 8,
        "multiprocessors": 108,
        "l2": 41943040,
        "threads": 2048,
        "optin": 166912,
        "total": gpu.total_bytes,
    }


@pytest.mark.parametrize("text", ["", "name=A", "total_bytes=-1", "nonsense"])
def test_cards_that_are_not_whole_are_no_cards(stand_in_libraries, text):
    environment = stand_in_environment(
        stand_in_libraries, workers_torch(os.environ), find_gpu("A100-80GB"), 1, os.environ
    )
    environment["MEMBUDGET_STAND_IN_CARDS"] = text
    code = "from ctypes import *; n = c_int(7); print(CDLL(None).cudaGetDeviceCount(byref(n)), n.value)"

    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["100", "0"]  # cudaErrorNoDevice
