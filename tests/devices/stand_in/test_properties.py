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
NAMES = "major", "multiprocessors", "l2", "threads", "optin"
OFFSETS = {
    "cudaGetDeviceProperties_v2": (360, 388, 616, 624, 696),
    "cudaGetDeviceProperties": (360, 384, 596, 604, 672),
}


def run(libraries, code, *arguments, **variables):
    gpu = find_gpu("A100-80GB")
    environment = {
        **stand_in_environment(libraries, workers_torch(os.environ), gpu, 1, os.environ),
        **variables,
    }
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("function", "version", "size_bytes"),
    [("cudaGetDeviceProperties_v2", "12060", 1032), ("cudaGetDeviceProperties", "13000", 1008)],
)
def test_properties_lie_where_this_cuda_has_them(stand_in_libraries, function, version, size_bytes):
    offsets = json.dumps(dict(zip(NAMES, OFFSETS[function], strict=True)))

    said = run(stand_in_libraries, READ, function, offsets, MEMBUDGET_STAND_IN_CUDA=version)

    # deviceQuery of an A100-SXM4-80GB: 108 SMs, 40 MiB of L2, 2,048 threads, 163 KiB of shared memory
    values = dict(zip(NAMES, (8, 108, 40 * 2**20, 2048, 163 * 1024), strict=True))
    total_bytes = find_gpu("A100-80GB").total_bytes
    assert json.loads(said) == ["NVIDIA A100-SXM4-80GB", size_bytes, {**values, "total": total_bytes}]


@pytest.mark.parametrize("text", ["", "name=A", "total_bytes=-1", "nonsense"])
def test_cards_that_are_not_whole_are_no_cards(stand_in_libraries, text):
    code = "from ctypes import *; n = c_int(7); print(CDLL(None).cudaGetDeviceCount(byref(n)), n.value)"

    said = run(stand_in_libraries, code, MEMBUDGET_STAND_IN_CARDS=text)

    assert said.split() == ["100", "0"]  # cudaErrorNoDevice


def test_an_attribute_that_is_not_known_is_named(stand_in_libraries):
    code = """
        from ctypes import *
        own = CDLL(None)
        own.stand_in_not_modelled.restype = c_char_p
        value = c_int(7)
        for attribute in (39, 18, 127):  # threads, integrated, and since CUDA 12 access by tensor maps
            own.cudaDeviceGetAttribute(byref(value), attribute, 0)
            print(value.value, own.stand_in_not_modelled().decode())
        """

    said = run(stand_in_libraries, code).splitlines()

    assert said[:3] == ["2048 ", "0 ", "0 cudaDeviceGetAttribute of attribute 127"]
