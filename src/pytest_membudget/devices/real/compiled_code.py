"""What inductor knows of the code that it writes: for which kernel a line allocates, and in which module.

The user's line is in PyTorch's own stacks, behind the line of the written code.
"""

from __future__ import annotations

import linecache
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from ...allocator.history import Frames
from ...tracking.running_code.replaced import Replacement
from ...tracking.running_code.source import is_compiled
from ..after_import import after_import
from ..torch_parts import check_parts

#: (module, attribute path, what it is for): see ``devices/torch_parts.py``.
PARTS: tuple[tuple[str, str, str], ...] = (
    ("torch._inductor.graph", "GraphLowering._compile_to_module_lines", "the modules of compiled code"),
)

# what inductor writes: torch/_inductor/codegen/wrapper.py, 2.13
_ALLOCATION = re.compile(r"\s*(\w+) = empty_strided\w*\(")
_ALIAS = re.compile(r"\s*(\w+) = (?:alloc_from_pool|reinterpret_tensor)\((\w+)")
_CALLS: Final = (
    (re.compile(r"\b(\w+)\.run\("), "{}"),
    (re.compile(r"\bextern_kernels\.(\w+)\("), "aten::{}"),
    (re.compile(r"\btorch\.ops\.(\w+\.\w+)\."), "{}"),
)
#: The variable by which dynamo has found the outermost module: ``L['self'].layers.0``.
_VARIABLE = re.compile(r"^[LG]\['\w+'\]\.?")


class _Line(NamedTuple):
    """From this line on the written code is that of the module."""

    number: int
    module: str | None


#: by written file
_modules: dict[str, Sequence[_Line]] = {}


def follow_inductor() -> None:
    """From here on keep the modules of what is compiled."""
    after_import("torch._inductor.graph", _follow)


def module_of(frames: Frames) -> str | None:
    """The module for which compiled code runs, by its path from the compiled one; None for no such code."""
    for frame in frames:
        lines = _modules.get(str(frame["filename"]))
        if lines is not None:
            at = bisect_right(lines, int(frame["line"]), key=lambda line: line.number)
            return lines[at - 1].module if at else None
    return None


def kernel_of(frames: Frames) -> str:
    """The kernel for whose result compiled code allocates: ``triton_poi_fused_silu_0``, ``aten::addmm``.

    Empty where none does, or its file is gone.
    """
    for frame in frames:
        if is_compiled(str(frame["filename"])):
            return _kernel_at(str(frame["filename"]), int(frame["line"]))
    return ""


def _follow(graph: Any) -> None:
    if not hasattr(graph.GraphLowering._compile_to_module_lines, "replacement"):
        check_parts(PARTS)
        Replacement(graph.GraphLowering, "_compile_to_module_lines", _keeping)


def _keeping(compile_lines: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def keep(graph: Any, written: Any) -> Any:
        compiled = compile_lines(graph, written)
        _modules[graph.cache_path] = [_Line(number, _module(node)) for number, node in written.line_map]
        return compiled

    return keep


def _module(node: Any) -> str | None:
    """The innermost module whose forward has the operation of ``node``, or that of which it is backward."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    return _VARIABLE.sub("", [*stack.values()][-1][0]) or None if stack else None


@cache
def _kernel_at(filename: str, line: int) -> str:
    lines = linecache.getlines(filename)
    allocation = _ALLOCATION.match(lines[line - 1]) if line <= len(lines) else None
    return _first_kernel(allocation[1], lines[line:]) if allocation is not None else ""


def _first_kernel(buffer: str, lines: Iterable[str]) -> str:
    """The kernel that is called first with ``buffer``, or with a part of it."""
    names = {buffer}
    for text in lines:
        alias = _ALIAS.match(text)
        if alias is not None and alias[2] in names:
            names.add(alias[1])
        elif not names.isdisjoint(re.findall(r"\w+", text)):
            for call, name in _CALLS:
                if (found := call.search(text)) is not None:
                    return name.format(found[1].replace(".", "::"))
    return ""
