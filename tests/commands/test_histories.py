"""``membudget compare`` of two snapshots: a comparison, or one line on what is wrong, and status 2."""

import copy
import pickle

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pytest_membudget.commands.main import UNUSABLE, main

FRAME = {"filename": "/home/u/repo/model.py", "line": 12, "name": "forward"}
SNAPSHOT = {
    "segments": [
        {
            "device": 0, "address": 4096, "total_size": 2048, "stream": 0, "segment_type": "small",
            "is_expandable": False,
            "blocks": [{"address": 4096, "size": 1024, "requested_size": 1000, "state": "active_allocated"}],
        }
    ],
    "device_traces": [
        [
            {"action": "segment_alloc", "addr": 4096, "size": 2048, "stream": 0, "frames": [FRAME]},
            {"action": "alloc", "addr": 4096, "size": 1000, "stream": 0, "user_metadata": "",
             "frames": [FRAME]},
            {"action": "oom", "device_free": 5, "size": 9, "stream": 0, "frames": []},
        ]
    ],
    "allocator_settings": {
        "max_split_size": 4096, "expandable_segments": True, "roundup_power2_divisions": {"1": 0, "2": 4},
    },
}  # fmt: skip
VALUES = st.sampled_from(
    [None, True, -1, 1.5, float("inf"), float("nan"), 2**64, 10**5000, 4096, "", "x", "\udcff", "1" * 5000,
     b"x", [], {}, [None], {"x": None}, ()]
)  # fmt: skip


def places(value, path=()):
    """The paths of all that is inside ``value``."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in inside:
        yield (*path, key)
        if isinstance(inner, (dict, list)):
            yield from places(inner, (*path, key))


def changed(path, value, *, taken_out):
    """The snapshot with ``value`` at ``path``, or without what is there."""
    content = copy.deepcopy(SNAPSHOT)
    around = content
    for key in path[:-1]:
        around = around[key]
    if taken_out:
        del around[path[-1]]
    else:
        around[path[-1]] = value
    return content


FRAME_PATH = ("device_traces", 0, 1, "frames", 0)


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "good.pickle"
    path.write_bytes(pickle.dumps(SNAPSHOT))
    return path


def test_a_snapshot_is_compared_with_itself(good, capsys):
    assert main(["compare", str(good), str(good)]) == 0
    assert "Held at the peaks: the same in both." in capsys.readouterr().out


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([*places(SNAPSHOT)]), VALUES, st.booleans())
@example((*FRAME_PATH, "filename"), None, True)  # each was a traceback
@example(("device_traces", 0, 1, "size"), float("inf"), False)
@example(("device_traces", 0, 1, "size"), 10**5000, False)
@example((*FRAME_PATH, "name"), "\udcff", False)
@example((*FRAME_PATH, "line"), 10**5000, False)
@example(FRAME_PATH, "x", False)
@example(("device_traces", 0, 1, "frames"), 7, False)
@example(("allocator_settings", "max_split_size"), "x", False)
def test_any_other_content_is_one_line_and_a_status(good, tmp_path, capsys, path, value, taken_out):
    other = tmp_path / "other.pickle"
    other.write_bytes(pickle.dumps(changed(path, value, taken_out=taken_out)))

    status = main(["compare", str(good), str(other)])

    shown = capsys.readouterr()
    shown.out.encode(), shown.err.encode()  # a terminal takes it
    if status:
        assert status == UNUSABLE
        assert " ".join(shown.err.split()).startswith("membudget: ")
        assert not shown.out
