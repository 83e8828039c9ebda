"""The contract of devices: the run that its text shows is one."""

import textwrap


def shown_run():
    import os

    import torch

    from pytest_membudget.devices.real import device
    from pytest_membudget.devices.stand_in.device import made_for
    from pytest_membudget.hardware.gpus import find_gpu
    from pytest_membudget.results.answer import Request

    names = {"made_for": made_for, "find_gpu": find_gpu, "Request": Request, "torch": torch, "os": os}
    exec(textwrap.dedent(device.__doc__.partition("::\n")[2]), names)
    return names["report"].peak["allocated"]


def test_the_run_that_the_contract_shows_is_one(stand_in):
    assert stand_in(shown_run, gpu="H100-80GB") == 2**30
