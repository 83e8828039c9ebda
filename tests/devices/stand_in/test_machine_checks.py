"""Why the stand-in cannot run on a machine, in a session, or with a build of torch, and what to do."""

import os
import resource
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from pytest_membudget.devices.stand_in.environment import stand_in_environment
from pytest_membudget.devices.stand_in.machine_checks import CUDA_MAJORS, why_it_cannot_run
from pytest_membudget.devices.torch_build.build import TorchBuild
from pytest_membudget.devices.torch_build.installed import workers_torch
from pytest_membudget.hardware.gpus import find_gpu

TORCH = TorchBuild(Path("/site-packages"), "2.13.0+cu130", cuda="13.0")


def built_for(cuda):
    return TorchBuild(Path("/site-packages"), f"2.13.0+cu{cuda.replace('.', '')}", cuda=cuda)


@pytest.mark.parametrize("cuda", ["12.6", "13.2"])
def test_releases_of_cuda_that_are_known_have_nothing_against_them(cuda):
    """properties.c tells 12's structures from 13's by 13000, and takes a larger number for 13's."""
    assert why_it_cannot_run(built_for(cuda)) is None
    assert CUDA_MAJORS == (12, 13)


@pytest.mark.parametrize("cuda", ["11.8", "14.0"])
def test_another_major_of_cuda_is_refused_by_name(cuda):
    """Its structures may be laid out otherwise: a figure would be wrong in silence."""
    assert why_it_cannot_run(built_for(cuda)) == (
        f"torch 2.13.0+cu{cuda.replace('.', '')} is built for CUDA {cuda}, and this release of "
        "pytest-membudget knows CUDA 12 and 13: update it, or use a build of torch for one of these"
    )


LIMITED = (
    "address space is limited to 200.00 GiB (ulimit -v), and the stand-in needs 320.00 GiB of it, which "
    "take no memory: run `ulimit -v unlimited` before pytest, or have the batch system set no limit of "
    "virtual memory"
)


@pytest.mark.parametrize(
    ("size_bytes", "reason"), [(200 * 2**30, LIMITED), (320 * 2**30, None), (resource.RLIM_INFINITY, None)]
)
def test_a_limit_of_address_space_is_named_with_what_to_write(monkeypatch, size_bytes, reason):
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (size_bytes, resource.RLIM_INFINITY))

    assert why_it_cannot_run(TORCH) == reason


STEP = """
import os, torch
model = torch.nn.Linear(64, 64).cuda()
model(torch.ones(8, 64, device="cuda")).sum().backward()
print(torch.cuda.memory_allocated(), flush=True)
os._exit(0)  # as workers end
"""


def test_the_least_limit_that_passes_is_enough_for_a_step(cuda_build):
    """In a process that has the limit from its start, as under ``ulimit -v``."""
    torch, gpu, limit = workers_torch(os.environ), find_gpu("A100-80GB"), 320 * 2**30

    done = subprocess.run(
        ["/bin/sh", "-c", f'ulimit -v {limit // 1024} && exec "$0" -c "$1"', sys.executable, STEP],
        env=stand_in_environment(cuda_build, torch, gpu, 1, os.environ),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0


def test_a_folder_whose_name_is_no_utf8_is_refused(tmp_path, monkeypatch):
    """PyTorch's record of allocations cannot name its files."""
    folder = os.fsencode(tmp_path) + b"/p\xe4th"
    os.mkdir(folder)
    monkeypatch.chdir(os.fsdecode(folder))

    assert why_it_cannot_run(TORCH) == (
        "PyTorch needs names of files in UTF-8, and this folder's is not: rename it"
    )


def test_a_locale_that_cannot_write_the_folder_is_refused(monkeypatch):
    """As with LC_ALL=C and PYTHONUTF8=0: Python has half a character for each byte."""
    monkeypatch.setattr(os, "getcwdb", lambda: "/päth".encode())
    monkeypatch.setattr(os, "getcwd", lambda: "/p\udcc3\udca4th")

    assert why_it_cannot_run(TORCH) == (
        "this locale has no characters for the name of this folder: rename it, or set PYTHONUTF8=1"
    )


def test_a_torch_that_pythonpath_cannot_name_is_refused():
    assert why_it_cannot_run(TorchBuild(Path("/a:b"), "2.13.0+cu130", cuda="13.0")) == (
        "PYTHONPATH cannot name /a:b, where torch is: use a folder without a colon in its path"
    )


def test_a_python_for_musl_is_refused(monkeypatch):
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: "x86_64-pc-linux-musl")

    assert why_it_cannot_run(TORCH) == (
        "the stand-in for CUDA is loaded by glibc's ld.so, and this Python is built for musl"
    )
