"""The capture, as it is run on a day when a GPU is there."""

import json

import pytest

from benchmarks import capture
from benchmarks.steps.registry import STEPS

pytestmark = pytest.mark.slow

MIB = 2**20


def test_a_step_is_captured_and_measuring_it_changes_nothing(cuda_build, tmp_path):
    steps = [step for step in STEPS if step.id == "one-mebibyte"]

    assert capture.main(["--device", "stand-in", "--out", str(tmp_path)], steps) == 0
    (path,) = tmp_path.glob("NVIDIA-H200/*/one-mebibyte.json")
    content = json.loads(path.read_text())
    assert content["versions"]["driver"] == "stand-in"
    assert content["changed_by_measuring"] == {}
    # a block of up to 1 MiB is cut from a segment of 2 MiB (CUDACachingAllocator: kSmallSize, kSmallBuffer)
    assert content["bare"]["allocated_bytes"] == MIB
    assert content["bare"]["reserved_bytes"] == 2 * MIB
