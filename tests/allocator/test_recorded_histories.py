"""Histories that real GPUs recorded, played by address: the allocator's recorded peaks and last state follow.

They are other people's data and no part of this project.
"""

import functools
import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.compact_history import load_history
from pytest_membudget.allocator.history import ACTIVE_ALLOCATED
from pytest_membudget.units import MIB
from tests.allocator.played import last_blocks, play

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "truth" / "traces"
load = functools.cache(load_history)


def recorded_devices():
    index = RECORDED / "index.json"
    if not index.is_file():
        reason = f"no recorded histories at {RECORDED}"
        return [pytest.param(None, None, marks=pytest.mark.skip(reason=reason), id="none")]
    return [
        pytest.param(entry["file"], device, id=f"{entry['file'].partition('.')[0]}-{device['device']}")
        for entry in json.loads(index.read_text(encoding="utf-8"))
        for device in entry["devices"]
    ]


def recorded(file, device):
    return load(RECORDED / file)[device["device"]]


every_recorded_device = pytest.mark.parametrize(("file", "device"), recorded_devices())


@every_recorded_device
def test_the_recorded_peaks_and_totals_are_reproduced(file, device):
    played = play(recorded(file, device))

    assert played.peak_reserved_bytes == device["peak_reserved_MiB"] * MIB
    if "peak_allocated_MiB" in device:
        assert played.peak_allocated_bytes / MIB == pytest.approx(device["peak_allocated_MiB"], abs=0.001)
    assert played.allocated_bytes == device["final_allocated_MiB"] * MIB
    assert played.reserved_bytes == device["final_reserved_MiB"] * MIB


@every_recorded_device
def test_the_recorded_last_blocks_are_reached(file, device):
    history = recorded(file, device)

    assert play(history).blocks == last_blocks(history)


@pytest.mark.parametrize("part", [0.2, 0.5, 0.9])
@every_recorded_device
def test_a_history_that_lost_its_beginning_ends_in_the_same_blocks(file, device, part):
    history = recorded(file, device)
    played = play(replace(history, events=history.events[int(part * len(history.events)) :]))

    assert played.blocks == last_blocks(history)
    in_use = [b for s in history.segments for b in s.blocks if b.state == ACTIVE_ALLOCATED]
    assert played.allocated_bytes == sum(block.size_bytes for block in in_use)
    assert played.reserved_bytes == sum(segment.size_bytes for segment in history.segments)
