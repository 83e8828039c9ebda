"""Families of published figures whose every estimate is what was measured, to 0.1%.

Of the two families that take longest some cases run here: attention at its largest size, the smallest and the
largest model with adapters. ``tox -e accuracy`` runs all.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.accuracy_runs import DEVICES, devices_here
from pytest_membudget.devices.fake.private import torch_release

ROOT = Path(__file__).parents[2]
LINE = re.compile(r"(\d+) figures: median ratio (\S+), worst (\S+); under (\d+)%, equal (\d+)%, over (\d+)%")


@pytest.mark.parametrize(
    ("family", "cases", "figures"),
    [
        ("attention", ["wed-attn-*-s16384-*"], 4),
        ("operators", [], 30),
        ("loss_heads", [], 23),
        ("lora", ["*-phi-1.5-nf4-dq-mb1", "*-Llama_2_13B-none-mb1"], 2),
    ],
)
@pytest.mark.parametrize("device", DEVICES)
def test_the_estimates_are_what_was_measured(device, family, cases, figures):
    pytest.importorskip("transformers")
    if device not in devices_here():
        pytest.skip("torch is a build without CUDA")
    if torch_release() >= (2, 15):
        pytest.skip("measured with releases that keep cuBLAS's workspaces: torch 2.15 frees them at once")
    command = [sys.executable, "-m", "benchmarks.accuracy", "--device", device, "--family", family]
    command += [f"--case={case}" for case in cases]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    found = LINE.search(done.stdout)
    assert int(found[1]) == figures
    assert found[5] == "100", done.stdout[-3000:]
