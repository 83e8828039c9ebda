"""Names of functions by address: the C library's, and local ones, without looking at all each time."""

import os

from pytest_membudget.devices.stand_in.building import built_libraries
from pytest_membudget.devices.stand_in.compiling import LIBRARY
from tests.programs import printed

#: Prints what both find at addresses in a large library of torch's, and by how much ours is faster.
COMPARING = """
import ctypes
import importlib.util
import os
import random
import sys
import time

torch = os.path.dirname(importlib.util.find_spec("torch").origin)
sys.setdlopenflags(os.RTLD_LAZY | os.RTLD_GLOBAL)
large = ctypes.CDLL(os.path.join(torch, "lib", "libtorch_cpu.so"))


class Info(ctypes.Structure):
    _fields_ = [
        ("file", ctypes.c_char_p), ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p), ("start", ctypes.c_void_p),
    ]


ours, theirs = ctypes.CDLL(None).dladdr, ctypes.CDLL("libc.so.6").dladdr
for function in (ours, theirs):
    function.argtypes = (ctypes.c_void_p, ctypes.POINTER(Info))
assert ctypes.cast(ours, ctypes.c_void_p).value != ctypes.cast(theirs, ctypes.c_void_p).value
ctypes.CDLL(None).stand_in_sort_symbols()


def found(function, addresses):
    began, answers = time.process_time(), []
    for address in addresses:
        info = Info()
        status = function(address, ctypes.byref(info))
        answers.append((status, info.file, info.base, info.name, info.start))
    return answers, time.process_time() - began


known = ctypes.cast(large._ZN2at4_ops3bmm4callERKNS_6TensorES4_, ctypes.c_void_p).value
info = Info()
theirs(known, info)
draw = random.Random(0)
addresses = [known, known + 1, known - 1, info.base, info.base - 1, 0, 1, ctypes.addressof(info)]
addresses += [known + draw.randrange(-(2**22), 2**22) for _ in range(300)]
addresses += [info.base + draw.randrange(2**29) for _ in range(300)]  # beyond its end, and in other libraries
mine, seconds = found(ours, addresses)
others, all_seconds = found(theirs, addresses)
for address, one, other in zip(addresses, mine, others):
    assert one == other or (one[:3] == other[:3] and other[3] is None and one[4] <= address), (one, other)
named = [sum(answer[3] is not None for answer in answers) for answers in (mine, others)]
print(*named, all_seconds / seconds)
"""


def test_they_are_the_c_librarys_and_local_ones_and_found_ten_times_as_fast():
    library = built_libraries(os.environ) / LIBRARY

    ours, theirs, times = printed("-c", COMPARING, env={**os.environ, "LD_PRELOAD": str(library)}).split()

    assert int(ours) - 100 > int(theirs) > 100
    assert float(times) > 10
