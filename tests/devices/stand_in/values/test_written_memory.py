"""Which of the followed tensors a launch may have written to: those that its parameters point into."""

import ctypes
import struct
import time


def kernel_with_pointers(count):
    """A kernel of the driver's that is described to take ``count`` pointers: an ELF file with no code."""
    parameters = struct.pack("<BBH", 3, 0x19, 8 * count)  # the bytes of all of them
    for index in range(count):
        parameters += struct.pack("<BBHIHHI", 4, 0x17, 12, 0, index, 8 * index, 8 << 18)
    names = b"\0.nv.info.kernel\0"
    at = 64 + len(names)
    sections = struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 64, len(names), 0, 0, 1, 0)
    sections += struct.pack("<IIQQQQIIQQ", 1, 1, 0, 0, at, len(parameters), 0, 0, 1, 0)
    header = b"\x7fELF\2\1\1".ljust(16, b"\0")
    header += struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, at + len(parameters), 0, 64, 0, 0, 64, 2, 0)
    cuda, module, kernel = ctypes.CDLL(None), ctypes.c_void_p(), ctypes.c_void_p()
    cuda.cuModuleLoadData(ctypes.byref(module), header + names + parameters + sections)
    cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"kernel")
    return kernel


def memory():
    """Where memory of a card begins, of which no kernel has been launched yet."""
    cuda, start = ctypes.CDLL(None), ctypes.c_void_p()
    cuda.cudaMalloc(ctypes.byref(start), ctypes.c_size_t(2**30))
    return start.value


def follow(address, size):
    ctypes.CDLL(None).stand_in_follow(ctypes.c_size_t(address), ctypes.c_size_t(size))


def launch(kernel, *addresses):
    pointers = [ctypes.c_void_p(address) for address in addresses]
    arguments = (ctypes.c_void_p * len(pointers))(*[ctypes.addressof(pointer) for pointer in pointers])
    ctypes.CDLL(None).cuLaunchKernel(kernel, *[ctypes.c_uint(1)] * 7, None, arguments, None)


def taken():
    """Where tensors begin that are followed no more, after the start of all."""
    addresses = (ctypes.c_size_t * 256)()
    count = ctypes.CDLL(None).stand_in_take_given(addresses, ctypes.c_size_t(256))
    return sorted(addresses[:count])


def written(followed, *addresses):
    start, kernel = memory(), kernel_with_pointers(len(addresses))
    for offset, size in followed:
        follow(start + offset, size)
    launches = ctypes.c_ulonglong.in_dll(ctypes.CDLL(None), "stand_in_launches")
    before = launches.value
    launch(kernel, *[start + offset for offset in addresses])
    first = [address - start for address in taken()]
    launch(kernel, *[start + offset for offset in addresses])
    return first, taken(), launches.value - before


APART = [[0, 512], [4096, 512], [8192, 512]]


def test_a_tensor_is_found_by_its_first_and_last_byte(stand_in):
    """Once: then it is followed no more. Launches whose parameters are known are not counted as foreign."""
    assert stand_in(written, APART, 4096) == [[4096], [], 0]
    assert stand_in(written, APART, 4096 + 511) == [[4096], [], 0]
    assert stand_in(written, APART, 0, 8192 + 8) == [[0, 8192], [], 0]


def test_what_lies_between_is_nobodys(stand_in):
    assert stand_in(written, APART, 4096 + 512) == [[], [], 0]
    assert stand_in(written, APART, 4096 - 8) == [[], [], 0]


def test_all_that_an_address_lies_in_are_found(stand_in):
    """A tensor may lie within another's storage: from DLPack, or of an owner that is gone."""
    nested = [[2048, 512], [0, 2**20], [1024, 256], [2**20, 512]]

    assert stand_in(written, nested, 2048 + 8) == [[0, 2048], [], 0]
    assert stand_in(written, nested, 2048 + 1024) == [[0], [], 0]
    assert stand_in(written, nested, 2**20) == [[2**20], [], 0]


def test_the_longer_of_two_reaches_counts(stand_in):
    assert stand_in(written, [[0, 8], [0, 512], [0, 64]], 256) == [[0], [], 0]


def seconds_of_launches(followed):
    start, kernel = memory(), kernel_with_pointers(8)
    for index in range(followed):
        follow(start + 4096 * index, 512)
    elsewhere = [start + 1024] * 8
    took = []
    for _ in range(5):
        before = time.perf_counter()
        for _ in range(200):
            launch(kernel, *elsewhere)
        took.append(time.perf_counter() - before)
    return min(took)


def test_a_launch_takes_no_longer_beside_many_followed_tensors(stand_in):
    """One after the other is looked at, 100,000 take a hundred times as long as 10."""
    assert stand_in(seconds_of_launches, 100_000) < 5 * stand_in(seconds_of_launches, 10)
