"""Layers of 512 x 512 numbers, 1 MiB in fp32; what makes the peak; and a device that measures."""

import torch
from torch import nn

MIB = 2**20


def linear(**options):
    return nn.Linear(512, 512, bias=False, device="cuda", **options)


def batch():
    return torch.randn(4, 512, device="cuda")


def peak(mib=64):
    """What was alive here is what the report shows."""
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda").dim()


def measured(body, *arguments, root=""):
    """The report of a device that follows no values, here on the stand-in's libraries."""
    from pytest_membudget.devices.real.device import RealCudaDevice

    device = RealCudaDevice()
    device.install()
    device.begin()
    body(*arguments)
    return device.end(metric="allocated", root=root)
