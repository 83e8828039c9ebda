"""Reading PyTorch's stacks costs what it must: torch._inductor is not imported for it."""

import pytest

from tests.programs import printed

pytestmark = pytest.mark.slow

READING = """
import sys
import torch
from pytest_membudget.devices.real.recorded_run import _without_inductor

profiler = torch._C._profiler
if {before}:
    import torch._inductor.codecache
stack = profiler.gather_traceback(python=True, script=True, cpp=False)
with _without_inductor():
    profiler.symbolize_tracebacks([stack])
    print("torch._inductor" in sys.modules, end=" ")
print(vars(torch).get("_inductor") is sys.modules.get("torch._inductor"), end=" ")
profiler.symbolize_tracebacks([stack])
print("torch._inductor" in sys.modules)
"""


@pytest.mark.parametrize(("before", "said"), [(False, "False True True"), (True, "True True True")])
def test_stacks_are_read_without_inductor_unless_it_is_there(before, said):
    """Without the context torch imports it: if that goes, so does the context."""
    assert printed("-c", READING.format(before=before)).strip() == said
