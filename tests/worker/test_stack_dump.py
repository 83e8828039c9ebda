"""The stack of a process that is over its time limit: the user's own line first, torch's calls left out."""

import os

import torch

from pytest_membudget.worker.server.stack_dump import hang_text, place_of
from pytest_membudget.worker.time_limit import Overrun

TORCH = os.path.dirname(torch.__file__)
LIBRARY = "/venv/lib/python3.12/site-packages/nicelib/layers.py"


def stack(*frames):
    return "\n".join(f'  File "{file}", line {line} in {function}' for file, line, function in frames)


DEEP = stack(
    *[(f"{TORCH}/_inductor/graph.py", number, "run_node") for number in range(30)],
    (LIBRARY, 7, "attend"),
    ("/project/models/block.py", 41, "forward"),
    (f"{TORCH}/nn/modules/module.py", 1776, "_call_impl"),
    ("/project/test_step.py", 12, "test_step"),
    ("/venv/lib/python3.12/site-packages/_pytest/python.py", 166, "pytest_pyfunc_call"),
)


def test_the_line_is_the_innermost_of_the_users_own_code():
    assert place_of(DEEP, "/project")[0] == "models/block.py:41 in forward"


def test_torchs_calls_are_counted_and_not_listed():
    assert place_of(DEEP, "/project")[1].splitlines() == [
        "  (30 calls in torch and Python's library)",
        f'  File "{LIBRARY}", line 7 in attend',
        '  File "/project/models/block.py", line 41 in forward',
        "  (1 calls in torch and Python's library)",
        '  File "/project/test_step.py", line 12 in test_step',
    ]


def test_a_stack_without_the_users_code_has_no_line():
    frames = stack((f"{TORCH}/nn/modules/module.py", 1, "_call_impl"))

    assert place_of(frames, "/project")[0] == ""
    assert place_of("", "/project")[1] == ""


def test_the_line_is_in_the_first_line_of_the_failure():
    first, *rest = hang_text(Overrun(3, 3), stack(("/project/block.py", 4, "forward"))).splitlines()

    assert "within 3 s of processor time, at " in first
    assert "block.py:4 in forward (" in first
    assert rest == ["It was at:", '  File "/project/block.py", line 4 in forward']
