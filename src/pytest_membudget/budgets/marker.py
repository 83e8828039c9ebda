"""``mem_budget`` marks: makes a ``Budget`` of those of a test, checks their values, and finds their line."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..components import METRICS_WITH
from ..errors import UsageMistake
from ..names import MARKER
from ..user_input.fields import read_fields
from ..user_input.nodes import PYTHON, Mistakes, Node, nodes_of
from .budget import ARGUMENTS, Budget


def read_budget(
    marks: Iterable[tuple[tuple[Any, ...], Mapping[str, Any]]], defaults: Mapping[str, Any]
) -> Budget:
    """The budget of ``marks``, closest first: the closest wins, argument by argument.

    Each mark is its positional and its keyword arguments. ``defaults`` are those of the command line and
    the settings. Raises ``UsageMistake`` with the value as written and what to write instead.
    """
    values: dict[str, Any] = {}
    for args, kwargs in marks:
        if args:
            shown = ", ".join(repr(value) for value in args)
            raise UsageMistake(f"{MARKER}({shown}): arguments go by name; write {MARKER}(gib=40)")
        for name, value in kwargs.items():
            values.setdefault(name, value)
    mistakes = Mistakes()
    nodes = {
        name: nodes_of(value, Node(None, f"{MARKER}({name}={value!r})", syntax=PYTHON))
        for name, value in values.items()
    }
    written = {name: value for name, value in values.items() if value is not None}
    shown = ", ".join(f"{name}={value!r}" for name, value in written.items())
    mark = Node(written, f"{MARKER}({shown})", syntax=PYTHON)
    if read_fields(ARGUMENTS, nodes, mark, "", mistakes) is not None:
        budget = Budget(**{**defaults, **written})
        check_budget(budget, {name: nodes[name] for name in written}, mark, mistakes)
        if not mistakes:
            return budget
    raise UsageMistake(mistakes.lines[0])  # in one line, as the reason of a verdict is


def check_budget(budget: Budget, written: Mapping[str, Node], place: Node, mistakes: Mistakes) -> None:
    """Collect fields of ``budget`` that contradict each other.

    ``written`` are the fields that the user has written at ``place``, without the settings' defaults.
    """
    for component, metrics in METRICS_WITH.items():
        if component in budget.components and budget.metric not in metrics:
            what = f"{component} is no part of {budget.metric} memory, so its budget would check nothing"
            remedy = f"{place.example('metric', metrics[0])}, or leave {component} out"
            mistakes.refuse(written["components"], "components", f"{what}; write {remedy}")


def find_marker_line(source: str, path: Sequence[str], arguments: Mapping[str, Any]) -> int | None:
    """The line of the closest mark for the function at ``path``: its own, its class's, the module's.

    ``path`` is the class names and the function's name, from the outside in. Where several marks are
    equally close, as in ``parametrize``, it is the one written with ``arguments``, or one whose arguments
    are not written out. None if the mark cannot be seen in the source: a hook added it, or another file
    has it.
    """
    try:
        scope: ast.AST = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    nodes = [scope]
    for name in path:
        found = _member(scope, name)
        if found is None:
            break
        nodes.append(found)
        scope = found
    named = _named_marks(nodes[0])
    for node in reversed(nodes):
        marks = _marks(node, named)
        if marks:
            likely = [line for line, written in marks if written == arguments]
            likely += [line for line, written in marks if written is None]
            return [*likely, marks[0][0]][0]
    return None


def _member(scope: ast.AST, name: str) -> ast.AST | None:
    """The class or function ``name`` in ``scope``; the last one, which is the one that Python keeps."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    body = getattr(scope, "body", [])
    return next((node for node in reversed(body) if isinstance(node, kinds) and node.name == name), None)


def _marks(node: ast.AST, named: Mapping[str, Any]) -> list[tuple[int, dict[str, Any] | None]]:
    """Line and arguments of each mark that ``node`` has itself, in source order."""
    places: list[ast.AST] = list(getattr(node, "decorator_list", []))
    if isinstance(node, (ast.Module, ast.ClassDef)):
        places += [child for child in node.body if "pytestmark" in _targets(child)]
    calls = [part for place in places for part in ast.walk(place) if isinstance(part, ast.Call)]
    written = {id(call.func): _literals(call) for call in calls}
    marks = []
    for part in (part for place in places for part in ast.walk(place)):
        if isinstance(part, ast.Attribute) and part.attr == MARKER:
            marks.append((part.end_lineno or part.lineno, written.get(id(part), {})))
        elif isinstance(part, ast.Name) and part.id in named:
            marks.append((part.lineno, named[part.id]))
    return sorted(marks, key=lambda mark: mark[0])


def _named_marks(module: ast.AST) -> dict[str, Any]:
    """The names that ``module`` gives to marks: ``small = pytest.mark.mem_budget(gib=1)``."""
    names: dict[str, Any] = {}
    for node in getattr(module, "body", []):
        value = getattr(node, "value", None)
        call = value.func if isinstance(value, ast.Call) else value
        if isinstance(call, ast.Attribute) and call.attr == MARKER:
            arguments = _literals(value) if isinstance(value, ast.Call) else {}
            names.update(dict.fromkeys(_targets(node) - {"pytestmark"}, arguments))
    return names


def _targets(node: ast.AST) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _literals(call: ast.Call) -> dict[str, Any] | None:
    """The keyword arguments of ``call``; None where one is no literal."""
    try:
        return {keyword.arg or "**": ast.literal_eval(keyword.value) for keyword in call.keywords}
    except ValueError:
        return None
