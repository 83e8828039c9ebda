"""Memory that a rank takes on another rank's card is in no figure of its own: the report says so."""

import torch

from pytest_membudget.devices.stand_in.device import StandInDevice
from pytest_membudget.hardware.gpus import find_gpu


def on_both_cards():
    gpu = find_gpu("A100-80GB")
    device = StandInDevice(gpu)
    device.install()
    device.begin(gpu, limited=False)
    held = [torch.empty(2**30, dtype=torch.uint8, device=f"cuda:{index}") for index in (0, 1)]
    report = device.end(metric="allocated", root="/")
    assert len(held) == 2
    return report.peak.allocated_bytes, list(report.not_modelled)


def test_it_is_reported(stand_in):
    allocated_bytes, not_modelled = stand_in(on_both_cards, count=2)

    assert allocated_bytes == 2**30
    assert not_modelled == ["1.00 GiB on cuda:1, which is another rank's: not counted"]
