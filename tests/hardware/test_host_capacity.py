"""Processors and memory that a process may use, from files as Linux writes them."""

import math
import os

import pytest

from pytest_membudget.hardware.host_capacity import free_bytes, processors

GIB = 2**30


@pytest.fixture
def group(tmp_path):
    def write(**files):
        for name, text in files.items():
            (tmp_path / name.replace("_", ".", 1)).write_text(text)
        return tmp_path

    return write


@pytest.fixture
def cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)


def test_processors_are_those_that_the_process_may_run_on(cores, tmp_path):
    assert processors({}, tmp_path / "none") == 8


@pytest.mark.parametrize(
    ("quota", "count"),
    [("max 100000\n", 8), ("200000 100000\n", 2), ("150000 100000\n", 2), ("5000 100000", 1)],
)
def test_a_control_groups_quota_counts(cores, group, quota, count):
    assert processors({}, group(cpu_max=quota)) == count


@pytest.mark.parametrize(("workers", "count"), [("2", 4), ("16", 1), ("many", 8)])
def test_the_workers_of_xdist_share_them(cores, tmp_path, workers, count):
    assert processors({"PYTEST_XDIST_WORKER_COUNT": workers}, tmp_path) == count


def test_free_memory_is_the_systems_or_the_control_groups_whichever_is_less(group, tmp_path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:    8388608 kB\n")

    assert free_bytes(meminfo, tmp_path / "none") == 8 * GIB
    folder = group(memory_max="max\n", memory_current=f"{GIB}\n")
    assert free_bytes(meminfo, folder) == 8 * GIB
    group(memory_max=f"{4 * GIB}\n", memory_stat=f"anon 5\ninactive_file {GIB // 2}\n")
    assert free_bytes(meminfo, folder) == 3.5 * GIB


def test_where_the_system_does_not_say_there_is_no_limit(tmp_path):
    assert free_bytes(tmp_path / "none", tmp_path) == math.inf
