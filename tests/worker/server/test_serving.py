import pytest

from tests.programs import printed

COMPILER = """
import os, sys
from pytest_membudget.devices.stand_in.environment import INDUCTOR_VARIABLE
from pytest_membudget.worker.server.serving import import_compiler
for os.environ[INDUCTOR_VARIABLE] in sys.argv[1:]:
    import_compiler()
    print("torch._inductor.compile_fx" in sys.modules)
import torch
print(torch.cuda.is_initialized())
"""
CODE = """
import sys
from pytest_membudget.budgets.marked_test import Program
from pytest_membudget.worker.server.serving import _import_recipe
_import_recipe(Program(("-m", "pytest_membudget.recipes.{}", "..."), "/"))
print([name for name in ("plain", "running") if f"pytest_membudget.recipes.{{name}}" in sys.modules])
"""


@pytest.mark.parametrize(("recipe", "imported"), [("plain", ["running"]), ("of_nobody", [])])
def test_what_a_recipe_imports_is_imported_once_and_the_recipe_runs_as_a_program(recipe, imported):
    assert printed("-c", CODE.format(recipe)).strip() == str(imported)


@pytest.mark.slow
def test_what_compiles_is_imported_once_where_a_test_has_compiled_and_initializes_no_driver(tmp_path):
    """Each test has a folder of its own, also one that compiles nothing."""
    plain, compiled = tmp_path / "plain", tmp_path / "compiled"
    (plain / "of_a_test").mkdir(parents=True)
    (compiled / "of_a_test" / "fxgraph").mkdir(parents=True)

    said = printed("-c", COMPILER, tmp_path / "none", plain, compiled)

    assert said.split() == ["False", "False", "True", "False"]
