"""Where allocations are from, by stacks of PyTorch and by those that a compact history has."""

import pytest

from benchmarks.history_places import is_node, is_workspace, operator_of, place_of
from tests.tracking.stacks import (
    ACCUMULATE,
    ALLOCATOR,
    BMM,
    ENGINE,
    LINEAR,
    NODE,
    PYTEST,
    USERS,
    WRITTEN,
    frame,
)

USERS_PLACE = "models/attention.py:41"


@pytest.mark.parametrize(
    ("frames", "place"),
    [
        ([ALLOCATOR, BMM, LINEAR, USERS, PYTEST], USERS_PLACE),
        ([frame("forward", "C:\\Users\\u\\repo\\models\\attention.py", 41)], USERS_PLACE),
        # PyTorch puts the user's line behind that of the written code: ``stack_frames_for_code``
        ([ALLOCATOR, WRITTEN, USERS, PYTEST], USERS_PLACE),
        ([BMM, USERS, frame("apply", "/x/torch/utils/checkpoint.py", 3), NODE], USERS_PLACE),
        ([ALLOCATOR, BMM, NODE, ENGINE], "BmmBackward0"),
        ([ALLOCATOR, BMM, ACCUMULATE, ENGINE], "AccumulateGrad"),
        # a backward that runs on the calling thread: the call of it is below the node
        ([frame("aten::bmm"), frame("BmmBackward0"), USERS], "BmmBackward0"),
        ([], "backward"),
        ([ALLOCATOR, ENGINE], "no line of Python"),
    ],
    ids=[
        *("the innermost outside PyTorch", "Windows", "compiled code", "recomputed", "a node"),
        *("a node of PyTorch", "the calling thread", "no frame", "no line of the users"),
    ],
)
def test_the_place_is_the_innermost_line_of_the_users_or_a_node_of_backward(frames, place):
    assert place_of(frames) == place
    assert is_node(place) is (place in ("BmmBackward0", "AccumulateGrad"))


@pytest.mark.parametrize(
    ("frames", "operator"),
    [
        ([frame("aten::add.Tensor"), USERS], "aten::add_Tensor"),
        ([frame("aten::mm workspace"), USERS], "aten::mm"),
        ([ALLOCATOR, BMM, USERS], "aten::bmm"),
        ([], ""),
    ],
    ids=["named by itself", "workspace", "recorded", "none"],
)
def test_an_operator_that_is_written_is_read(frames, operator):
    assert operator_of(frames) == operator
    assert is_workspace(frames) is any(one["name"].endswith(" workspace") for one in frames)
