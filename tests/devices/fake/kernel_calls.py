"""Calls of kernels' rules on meta tensors, for the tests of their hidden bytes."""

import torch

from pytest_membudget.devices.fake.kernel_temporaries import kernel_temporaries
from pytest_membudget.hardware.gpus import find_gpu

A100 = find_gpu("A100-80GB")  # 108 multiprocessors of 2,048 threads
H100 = find_gpu("H100-80GB")  # 132
L4 = find_gpu("L4")  # 58 of 1,536
MI300X = find_gpu("MI300X")


def meta(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="meta")


def held(func, *args, gpu=A100, result=None, **kwargs):
    """The rule's sizes; the result is the operator's own, on meta tensors."""
    result = func(*args, **kwargs) if result is None else result
    return kernel_temporaries(func, args, kwargs, result, gpu)
