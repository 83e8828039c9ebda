"""The parts of a source file that lie around a line."""

import ast
from typing import Any


def innermost(tree: ast.AST, line: int, kinds: tuple[type[ast.AST], ...], *, simple: bool = False) -> Any:
    """The innermost node of ``kinds`` around ``line``, or None; ``simple``: of those without a body."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, kinds)
        and not (simple and hasattr(node, "body"))
        and getattr(node, "lineno", 0) <= line <= (getattr(node, "end_lineno", 0) or 0)
    ]
    return max(around, key=lambda node: getattr(node, "lineno", 0), default=None)
