"""Stacks of a snapshot: every call from the allocation to the user's outermost one, and no frame."""

import gc
import json
import sys
import weakref

from pytest_membudget.tracking.recording import StackBook

HERE = __file__


def book(end=None, hidden=(), users=lambda filename: filename == HERE):
    return StackBook(end, lambda filename: filename in hidden, users)


def lines_of(frames):
    return [(frame["name"], frame["line"]) for frame in frames]


def inner(stacks):
    return stacks.capture()


def outer(stacks):
    return inner(stacks)


def twice(stacks):
    return [outer(stacks) for _ in range(2)]


def first_line(function):
    return function.__code__.co_firstlineno


def test_calls_are_listed_from_the_innermost_out_with_file_line_and_name():
    stacks = book(end=sys._getframe().f_code)

    frames = stacks.frames(outer(stacks))

    assert lines_of(frames) == [("inner", first_line(inner) + 1), ("outer", first_line(outer) + 1)]
    assert {frame["filename"] for frame in frames} == {HERE}


def test_the_same_stack_has_the_same_number_and_another_line_another():
    stacks = book()

    first, second = twice(stacks)
    other = outer(stacks)

    assert first == second != other


def test_equal_frames_of_two_stacks_are_one_object():
    stacks = book()

    one, other = outer(stacks), outer(stacks)

    assert stacks.frames(one)[0] is stacks.frames(other)[0]


def test_what_called_the_outermost_code_of_the_user_is_left_out():
    stacks = book()

    frames = stacks.frames(outer(stacks))

    assert frames[-1]["name"] == "test_what_called_the_outermost_code_of_the_user_is_left_out"


def test_hidden_files_are_left_out_wherever_they_are():
    source = "def between(call, stacks):\n    return call(stacks)"
    scope = {}
    exec(compile(source, "/ours/between.py", "exec"), scope)
    stacks = book(end=sys._getframe().f_code, hidden=("/ours/between.py",))

    frames = stacks.frames(scope["between"](outer, stacks))

    assert [frame["name"] for frame in frames] == ["inner", "outer"]


def test_torchs_way_to_the_device_is_left_out_and_its_other_code_is_not():
    scope = {}
    exec(compile("def op(call, s):\n    return call(s)", "/lib/torch/_ops.py", "exec"), scope)
    exec(compile("def relu(call, s):\n    return op(call, s)", "/lib/torch/nn/f.py", "exec"), scope)
    here = sys._getframe().f_code
    # this file stands for this package's own code: what the device's operator runs
    stacks = book(end=here, hidden=(HERE,), users=lambda filename: False)

    frames = stacks.frames(scope["relu"](inner, stacks))

    assert [frame["name"] for frame in frames] == ["relu"]


def test_torchs_way_to_an_operator_stays_where_the_user_goes_it_to_other_code():
    scope = {}
    exec(compile("def op(call, s):\n    return call(s)", "/lib/torch/_ops.py", "exec"), scope)
    stacks = book(end=sys._getframe().f_code, users=lambda filename: False)

    frames = stacks.frames(scope["op"](inner, stacks))

    assert [frame["name"] for frame in frames] == ["inner", "op"]


def test_code_outside_of_any_user_keeps_its_stack():
    stacks = book(end=sys._getframe().f_code, users=lambda filename: False)

    assert [frame["name"] for frame in stacks.frames(outer(stacks))] == ["inner", "outer"]


def test_a_captured_stack_keeps_nothing_of_its_calls_alive():
    class Local:
        pass

    def call(stacks):
        local = Local()
        return weakref.ref(local), stacks.capture()

    stacks = book()
    gc.disable()
    try:
        local, _ = call(stacks)
        assert local() is None
    finally:
        gc.enable()


def test_frames_are_plain_values():
    stacks = book()

    frames = stacks.frames(outer(stacks))

    assert json.loads(json.dumps(frames)) == frames
