"""A recorded run is the run: its figures are those of a run that nobody records."""

import json
import subprocess
import sys

import pytest

SCRIPT = """
import json, sys
import torch
from torch.utils.checkpoint import checkpoint
from pytest_membudget.hardware.gpus import find_gpu
from pytest_membudget.devices.fake.device import VirtualDevice

H100 = find_gpu("H100-80GB")
device = VirtualDevice(H100, records=sys.argv[1] == "recorded")
device.install()

def train():
    # gradients at a fan-in are summed in place where nobody else holds them: references are counted
    block = torch.nn.Sequential(torch.nn.Linear(600, 600), torch.nn.GELU()).cuda()
    optimizer = torch.optim.AdamW(block.parameters())
    for _ in range(30):
        x = torch.randn(200, 600, device="cuda", requires_grad=True)
        y = checkpoint(block, x, use_reentrant=False)
        (y + block(y) + y * y).sum().backward()
        optimizer.step()

device.begin(H100, limited=False)
train()
report = device.end(metric="allocated", root="/").to_json()
snapshot = device.snapshot()
actions = [entry["action"] for entry in snapshot["device_traces"][0]] if snapshot else []
print(json.dumps({"report": {**report, "seconds": 0}, "allocs": actions.count("alloc")}), flush=True)
import os
os._exit(0)
"""


@pytest.fixture(scope="module")
def answers():
    return {how: run(how) for how in ("recorded", "not recorded")}


def run(how):
    done = subprocess.run([sys.executable, "-c", SCRIPT, how], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_figures_do_not_depend_on_recording(answers):
    reports = [dict(answers[name]["report"]) for name in ("recorded", "not recorded")]
    timelines = [report.pop("timeline") for report in reports]

    assert reports[0] == reports[1]
    assert timelines[0] is not None
    assert timelines[1] is None


def test_only_the_recorded_run_has_a_history(answers):
    assert answers["recorded"]["allocs"] > 500
    assert answers["not recorded"]["allocs"] == 0
