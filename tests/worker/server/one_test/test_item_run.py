"""The file of a snapshot: whole or not there, and what went wrong is an answer."""

import errno
import os
import pickle
from pathlib import Path

import pytest

from pytest_membudget.worker.server.one_test.item_run import write_snapshot

SNAPSHOT = {"segments": [], "device_traces": [[{"action": "alloc", "size": 2**40}]]}


def names_in(folder):
    return [path.name for path in folder.iterdir()]


def test_a_snapshot_is_a_plain_pickle_in_a_folder_that_is_made(tmp_path):
    path = tmp_path / "a" / "b" / "test.pickle"

    assert write_snapshot(path, SNAPSHOT) == (True, "")
    assert pickle.loads(path.read_bytes()) == SNAPSHOT
    assert names_in(path.parent) == ["test.pickle"]


def test_the_pickle_is_of_a_protocol_that_the_viewer_reads(tmp_path):
    write_snapshot(tmp_path / "test.pickle", SNAPSHOT)

    # a pickle begins with the byte 0x80 and its protocol; the viewer reads 2 to 4
    assert (tmp_path / "test.pickle").read_bytes()[:2] == b"\x80\x04"


def test_no_snapshot_makes_no_folder_and_removes_an_earlier_file(tmp_path):
    path = tmp_path / "a" / "test.pickle"

    assert write_snapshot(path, None) == (False, "")
    assert names_in(tmp_path) == []
    write_snapshot(path, SNAPSHOT)
    write_snapshot(path, None)
    assert names_in(path.parent) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full to stand for a full disk")
def test_a_full_disk_is_reported_and_leaves_nothing_behind(tmp_path):
    path = tmp_path / "test.pickle"
    (tmp_path / f"test.pickle.{os.getpid()}.part").symlink_to("/dev/full")

    assert write_snapshot(path, SNAPSHOT) == (False, f"{os.strerror(errno.ENOSPC)}: {tmp_path}")
    assert names_in(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_reported(tmp_path):
    (tmp_path / "taken").write_text("a file")

    has_snapshot, error = write_snapshot(tmp_path / "taken" / "test.pickle", SNAPSHOT)

    assert not has_snapshot
    assert str(tmp_path / "taken") in error
