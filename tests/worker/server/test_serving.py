import subprocess
import sys

import pytest

CODE = """
import sys
from pytest_membudget.worker.server.serving import _import_recipe
_import_recipe([["-m", "pytest_membudget.recipes.{}", "..."], "/"])
print([name for name in ("plain", "running") if f"pytest_membudget.recipes.{{name}}" in sys.modules])
"""


@pytest.mark.parametrize(("recipe", "imported"), [("plain", ["running"]), ("of_nobody", [])])
def test_what_a_recipe_imports_is_imported_once_and_the_recipe_runs_as_a_program(recipe, imported):
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(recipe)], check=True, capture_output=True, text=True
    )

    assert done.stdout.strip() == str(imported)
