"""Sessions that measure, in processes in which the stand-in is the card."""

import os
from pathlib import Path

import pytest

from pytest_membudget.devices.stand_in.environment import stand_in_environment
from pytest_membudget.devices.torch_build.installed import workers_torch
from pytest_membudget.hardware.gpus import find_gpu

HERE = Path(__file__).parent
ROOT = HERE.parents[3]


@pytest.fixture(scope="session")
def on_cards(cuda_build):
    """``on_cards(count)``: variables of a process in which torch finds as many cards."""

    def variables(count=1, gpu="A100-80GB"):
        path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH", "")]))
        shown = ",".join(map(str, range(count)))
        own = {"PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": shown}
        return {
            **stand_in_environment(cuda_build, workers_torch(os.environ), find_gpu(gpu), count, {}),
            **own,
        }

    return variables


@pytest.fixture(scope="module")
def measured_session(session_of, on_cards, tmp_path_factory):
    """``measured_session(files, *args, cards=1)``: a session that must measure, with its own locks."""

    def run(files, *args, cards=1, env=None):
        locks = {"TMPDIR": str(tmp_path_factory.mktemp("locks"))}
        switch = ("-p", "pytest_membudget.testing", "-p", "measured_on_stand_in")
        required = ("--membudget", "--membudget-measure=require", "--membudget-gpu=A100-80GB")
        return session_of(files, *switch, *required, *args, env={**on_cards(cards), **locks, **(env or {})})

    return run
