"""Where in the source a ``mem_budget`` mark stands."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence


def find_marker_line(source: str, path: Sequence[str], marker: str) -> int | None:
    """The line of the closest ``marker`` for the function at ``path``: its own, its class's, the module's.

    ``path`` is the class names and the function's name, from the outside in. None if the mark cannot be
    seen in the source: a hook added it.
    """
    try:
        scope: ast.AST = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    nodes = [scope]
    for name in path:
        found = _member(scope, name)
        if found is None:
            break
        nodes.append(found)
        scope = found
    for node in reversed(nodes):
        for line in _marker_lines(node, marker):
            return line
    return None


def _member(scope: ast.AST, name: str) -> ast.AST | None:
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in getattr(scope, "body", []):
        if isinstance(node, kinds) and node.name == name:
            return node
    return None


def _marker_lines(node: ast.AST, marker: str) -> Iterator[int]:
    places: list[ast.AST] = list(getattr(node, "decorator_list", []))
    if isinstance(node, (ast.Module, ast.ClassDef)):
        places += [child for child in node.body if _sets_pytestmark(child)]
    for place in places:
        for part in ast.walk(place):
            if isinstance(part, ast.Attribute) and part.attr == marker:
                yield part.end_lineno or part.lineno


def _sets_pytestmark(node: ast.AST) -> bool:
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets)
    return isinstance(node, ast.AnnAssign) and getattr(node.target, "id", None) == "pytestmark"
