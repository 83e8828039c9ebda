"""The environment of a process on the stand-in."""

import subprocess
import sys
from pathlib import Path

from pytest_membudget.devices.stand_in import environment
from pytest_membudget.devices.stand_in.building import Built
from pytest_membudget.hardware.gpus import find_gpu

BUILT = Built(Path("/libraries"))
OURS = "/libraries/libmembudget_stand_in.so /libraries/libcuda.so.1 /libraries/libnvidia-ml.so.1"


def made(base, **arguments):
    return environment.stand_in_environment(BUILT, find_gpu("A100-80GB"), 1, base, **arguments)


def test_the_libraries_come_before_what_was_preloaded():
    assert made({"LD_PRELOAD": "/a.so:/b.so /c.so"})["LD_PRELOAD"] == f"{OURS} /a.so /b.so /c.so"
    assert made({})["LD_PRELOAD"] == OURS


def test_hidden_cards_of_the_machine_do_not_hide_these():
    made_of = made({"CUDA_VISIBLE_DEVICES": "", "HOME": "/home/me"})

    assert "CUDA_VISIBLE_DEVICES" not in made_of
    assert made_of["HOME"] == "/home/me"
    assert made_of["TRITON_LIBCUDA_PATH"] == "/libraries"


def test_a_card_has_its_own_capacity_or_none():
    gpu = find_gpu("A100-80GB")

    limited, unlimited = environment.cards_text(gpu, 2), environment.cards_text(gpu, unlimited=True)

    assert limited.count("\n") == 1
    assert limited.count(f"capacity_bytes={gpu.total_bytes - gpu.context_bytes}") == 2
    assert f"total_bytes={gpu.total_bytes};" in unlimited
    assert f"capacity_bytes={16 * 2**40}" in unlimited


def test_the_cuda_of_torch_is_read_without_importing_it():
    code = (
        "import sys; from pytest_membudget.devices.stand_in.environment import cuda_version_of_torch as f; "
        "print(f()); assert 'torch' not in sys.modules; import torch; print(torch.version.cuda)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    read, real = done.stdout.split()
    assert read == real
