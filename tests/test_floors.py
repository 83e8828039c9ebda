"""The import floors: a module imports only from lower ones.

That the plugin imports nothing heavy is in ``plugin/test_without_the_flag.py``.
"""

import ast
import graphlib
from pathlib import Path
from typing import NamedTuple

import pytest

import pytest_membudget

PACKAGE = "pytest_membudget"
ROOT = Path(pytest_membudget.__file__).parent

# The lowest first. A name is a module or a whole folder; what is on one floor does not import its
# neighbours, and the modules of one folder import each other without a circle.
FLOORS = [
    ["assumptions"],
    ["__init__", "external_commands"],
    ["units", "components", "errors", "names", "outcomes", "atomic_files", "git_command"],
    ["user_input"],
    ["json_object"],
    ["caveats"],
    ["memory_report"],
    ["hardware"],
    ["budgets"],
    ["results"],
    ["allocator"],
    ["scenarios.job"],
    ["formulas"],
    ["recipes"],
    ["tracking"],
    ["devices.after_import", "devices.torch_parts"],
    ["devices.real"],
    ["cache"],
    ["devices"],
    ["worker"],
    ["reporting"],
    ["comparison", "scenarios", "testing"],
    ["gate", "commands"],
    ["plugin", "__main__"],
]

# For the user's tests to call: ordinary PyTorch that knows nothing of ours.
FREE_STANDING = ["steps"]

FLOOR_OF = {name: number for number, names in enumerate([FREE_STANDING, *FLOORS]) for name in names}


class Import(NamedTuple):
    """One module of ours that a module names, wherever in it."""

    target: str
    line: int
    for_types_only: bool


def modules():
    """Every module of the package, by its name below the package."""
    names = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)] = path
    return names


def part_of(module):
    """The entry of the table that a module belongs to: the longest that names it or a folder above it."""
    parts = module.split(".")
    names = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    return next((name for name in names if name in FLOOR_OF), names[-1])


def imports_of(source, module, is_package, known):
    """The imports of ours in ``source``, those inside functions and of a type checker too.

    ``known`` are the names of all modules: whether ``from . import x`` means a module x or a name x.
    """
    found = []
    for node, for_types_only in _statements(ast.parse(source)):
        if isinstance(node, ast.Import):
            paths = [alias.name.split(".") for alias in node.names]
        else:
            paths = [[*_base(node, module, is_package), alias.name] for alias in node.names]
        for path in paths:
            if path[0] == PACKAGE:
                found.append(Import(_module_named(path[1:], known), node.lineno, for_types_only))
    return found


def _statements(node, for_types_only=False):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child, for_types_only
        elif isinstance(child, ast.If) and ast.unparse(child.test) in (
            "TYPE_CHECKING",
            "typing.TYPE_CHECKING",
        ):
            yield from _statements(ast.Module(child.body, []), True)
            yield from _statements(ast.Module(child.orelse, []), for_types_only)
        else:
            yield from _statements(child, for_types_only)


def _base(node, module, is_package):
    if node.level == 0:
        return node.module.split(".")
    above = [PACKAGE, *(module.split(".") if module != "__init__" else [])]
    dropped = node.level - (1 if is_package else 0)
    return above[: len(above) - dropped] + (node.module.split(".") if node.module else [])


def _module_named(path, known):
    """The longest beginning of ``path`` that is a module; the package itself if none is."""
    for length in range(len(path), 0, -1):
        if ".".join(path[:length]) in known:
            return ".".join(path[:length])
    return "__init__"


@pytest.fixture(scope="module")
def graph():
    """Every module with its imports of ours."""
    known = modules()
    return {
        module: imports_of(path.read_text(encoding="utf-8"), module, path.name == "__init__.py", known)
        for module, path in known.items()
    }


# The floors


def test_every_module_is_on_a_floor():
    homeless = {module for module in modules() if part_of(module) not in FLOOR_OF}
    assert not homeless, "put each into FLOORS, above all that it imports"


def test_no_module_is_on_two_floors():
    names = [name for floor in FLOORS for name in floor] + FREE_STANDING
    assert len(names) == len(set(names))


def test_every_module_imports_only_from_lower_floors(graph):
    upward = [
        f"{module}:{line} imports {target}"
        for module, imports in graph.items()
        if part_of(module) in FLOOR_OF
        for target, line, _ in imports
        if part_of(target) != part_of(module)
        and FLOOR_OF.get(part_of(target), len(FLOOR_OF)) >= FLOOR_OF[part_of(module)]
    ]
    assert not upward


@pytest.mark.parametrize("name", FREE_STANDING)
def test_what_is_free_standing_imports_nothing_of_ours(graph, name):
    foreign = [
        f"{module}:{line} imports {target}"
        for module, imports in graph.items()
        if part_of(module) == name
        for target, line, _ in imports
        if part_of(target) != name
    ]
    assert not foreign


def test_no_modules_import_each_other_in_a_circle(graph):
    # imports for the type checker count: a circle of them is one that a reader has to follow too
    named = {module: {imported.target for imported in imports} for module, imports in graph.items()}
    graphlib.TopologicalSorter(named).prepare()  # CycleError names the circle


# The reader of imports


@pytest.mark.parametrize(
    ("source", "targets"),
    [
        ("import torch, json", []),
        ("import pytest_membudget", ["__init__"]),
        ("import pytest_membudget.units as u", ["units"]),
        ("from pytest_membudget.tracking.ledger import Ledger", ["tracking.ledger"]),
        ("from pytest_membudget import units, __version__", ["units", "__init__"]),
        ("from .record import Record", ["tracking.record"]),
        ("from . import record, tracker", ["tracking.record", "tracking"]),
        ("from .. import units", ["units"]),
        ("from ..units import GIB", ["units"]),
        ("from .. import __version__", ["__init__"]),
        ("def f():\n    if True:\n        from ..units import GIB", ["units"]),
        ("class A:\n    try:\n        import pytest_membudget.units\n    finally:\n        pass", ["units"]),
        ("if TYPE_CHECKING:\n    from ..units import GIB", ["units"]),
    ],
)
def test_an_import_is_found_however_it_is_written(source, targets):
    known = ["__init__", "units", "tracking", "tracking.ledger", "tracking.record"]
    found = imports_of(source, "tracking.ledger", False, known)
    assert [imported.target for imported in found] == targets
