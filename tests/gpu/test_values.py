"""Bodies that read values from the card: their memory does not depend on what they read, or it does.

What the first take is known without a card, and a strict estimate of them passes; the others
have a caveat or a range.
The budgets are ceilings; what these tests are for is the difference between estimate and measurement, which
``--membudget-report`` has for each.
"""

import ast
from pathlib import Path

import pytest

pytestmark = pytest.mark.filterwarnings("default")


def bodies_of(*names):
    """The functions without arguments, by their names: torch is imported where a test runs."""
    trees = [ast.parse(Path(__file__).with_name(f"{name}.py").read_text()) for name in names]
    found = [node for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [one.name for one in found if ast.unparse(one.args) == "" and not one.name.startswith("_")]


INDEPENDENT = bodies_of("gpu_values", "gpu_values_algorithms")
DEPENDENT = bodies_of("gpu_values_sizes")


@pytest.mark.mem_budget(gib=0.4, gpu="H200")
@pytest.mark.parametrize("name", INDEPENDENT)
def test_values_that_change_nothing(name):
    import gpu_values
    import gpu_values_algorithms
    import torch

    torch.manual_seed(0)
    (vars(gpu_values) | vars(gpu_values_algorithms))[name]()


@pytest.mark.mem_budget(gib=0.7, gpu="H200")
@pytest.mark.parametrize("name", DEPENDENT)
def test_values_that_make_sizes(name):
    import gpu_values_sizes
    import torch

    torch.manual_seed(0)
    getattr(gpu_values_sizes, name)()
