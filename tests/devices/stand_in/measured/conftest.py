"""Sessions that measure, in processes in which the stand-in is the card."""

import os

import pytest

from pytest_membudget.devices.stand_in.environment import stand_in_environment
from pytest_membudget.devices.torch_build.installed import workers_torch
from pytest_membudget.hardware.gpus import find_gpu
from pytest_membudget.worker.client.order import SYMBOLS

#: A plugin for the sessions: they measure on the stand-in as on a card. No user's session does.
MEASURED = """
    from pytest_membudget.testing import GivenDevice

    def pytest_membudget_estimates():
        return GivenDevice("measured_on_stand_in:made_for")

    def made_for(gpu):
        # the measuring device itself, without asking what it would measure on
        from pytest_membudget.devices.real.device import RealCudaDevice

        return RealCudaDevice()
    """


@pytest.fixture(scope="session")
def on_cards(cuda_build):
    """``on_cards(count)``: variables of a process in which torch finds as many cards."""

    def variables(count=1, gpu="A100-80GB"):
        torch = workers_torch(os.environ)
        base = {**SYMBOLS, "MEMBUDGET_CACHE_DIR": os.environ["MEMBUDGET_CACHE_DIR"]}
        cards = stand_in_environment(cuda_build, torch, find_gpu(gpu), count, base)
        del cards["MEMBUDGET_CACHE_DIR"]  # each session has its own
        return {**cards, "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(count)))}

    return variables


@pytest.fixture(scope="module")
def measured_session(session_of, on_cards, tmp_path_factory):
    """``measured_session(files, *args, cards=1)``: a session that must measure, with its own locks."""

    def run(files, *args, cards=1, env=None):
        locks = {"TMPDIR": str(tmp_path_factory.mktemp("locks"))}
        switch = ("-p", "pytest_membudget.testing", "-p", "measured_on_stand_in")
        required = ("--membudget", "--membudget-measure=require", "--membudget-gpu=A100-80GB")
        variables = {**on_cards(cards), **locks, **(env or {})}
        return session_of(
            {"measured_on_stand_in.py": MEASURED, **files}, *switch, *required, *args, env=variables
        )

    return run
