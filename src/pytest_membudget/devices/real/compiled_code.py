"""What inductor knows of the code that it writes: for which kernel a line allocates, and in which module.

The user's line is in PyTorch's own stacks, behind the line of the written code. What its kernels compute from
parameters alone, no operator shows: the graph that it compiles does.
"""

import linecache
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cache, reduce
from itertools import count
from operator import or_
from typing import Any, Final, NamedTuple

from ...allocator.history import Frames
from ...tracking.roles.computed import Computed
from ...tracking.running_code.replaced import Replacement
from ...tracking.running_code.source import is_compiled
from ..after_import import after_import
from ..torch_parts import check_parts

#: (module, attribute path, what it is for): see ``devices/torch_parts.py``.
PARTS: tuple[tuple[str, str, str], ...] = (
    ("torch._inductor.graph", "GraphLowering._compile_to_module_lines", "the modules of compiled code"),
    (
        "torch._inductor.codegen.wrapper",
        "PythonWrapperCodegen.define_subgraph_launcher_fn",
        "its parts' lines",
    ),
    ("torch._inductor.utils", "IndentedBuffer", "lines of compiled code"),
    ("torch._inductor.utils", "LineContext", "lines of compiled code"),
    ("torch._inductor.utils", "ValueWithLineMap", "lines of compiled code"),
)
#: Inductor's method that runs a kernel with several configurations (runtime/triton_heuristics.py, 2.13).
_TUNING: Final = "autotune_to_one_config"

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
#: who notes what compiled code gives
_notes: list[Computed] = []


def follow_inductor(computed: Computed) -> None:
    """From here on keep the modules of what is compiled, and have ``computed`` note what that gives."""
    _notes.append(computed)
    after_import("torch._inductor.graph", _follow)


def leave_inductor(computed: Computed) -> None:
    """``computed`` no longer notes anything."""
    _notes.remove(computed)


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


def tuned_kernel(frames: Frames) -> str:
    """The kernel that runs to be tuned, with copies of what it writes to; empty where none does."""
    if not any(frame["name"] == _TUNING for frame in frames):
        return ""
    for frame in frames:
        if is_compiled(str(frame["filename"])):
            return _called_in(linecache.getline(str(frame["filename"]), int(frame["line"]))) or "a kernel"
    return "a kernel"


def _follow(graph: Any) -> None:
    if not hasattr(graph.GraphLowering._compile_to_module_lines, "replacement"):
        check_parts(PARTS)
        from torch._inductor.codegen.wrapper import PythonWrapperCodegen

        Replacement(graph.GraphLowering, "_compile_to_module_lines", _keeping)
        Replacement(PythonWrapperCodegen, "define_subgraph_launcher_fn", _with_lines)


def _with_lines(define: Callable[[Any, str, Any], None]) -> Callable[[Any, str, Any], None]:
    """``define`` takes a part of a graph for CUDA graphs, of whose lines it forgets what they are for."""
    from torch._inductor.utils import IndentedBuffer, LineContext, ValueWithLineMap

    def with_lines(wrapper: Any, name: str, part: Any) -> None:
        text, nodes = IndentedBuffer(), list(part.line_map)
        for number, line in enumerate(part.value.splitlines(), 1):
            while nodes and nodes[0][0] <= number:
                text.writeline(LineContext(nodes.pop(0)[1]))
            text.writeline(line)
        whole: Any = text
        define(wrapper, name, ValueWithLineMap(whole, part.line_map))

    return with_lines


def _keeping(compile_lines: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def keep(graph: Any, written: Any) -> Any:
        compiled = compile_lines(graph, written)
        _modules[graph.cache_path] = [_Line(number, _module(node)) for number, node in written.line_map]
        if not graph.is_backward:
            compiled.call = _noted(compiled.call, inputs_of_results(graph.module.graph))
        return compiled

    return keep


def _noted(call: Callable[[list[Any]], Any], inputs: Sequence[int]) -> Callable[[list[Any]], Any]:
    """``call`` takes a list of its inputs, which it empties: only parameters are held until it returns."""

    def run(args: list[Any]) -> Any:
        held = [computed.held_in(args) for computed in _notes]
        results = call(args)
        for computed, by_place in zip(_notes, held, strict=True):
            others = ~sum(1 << place for place in by_place)
            for of, result in zip(inputs, results, strict=False):
                if of and not of & others:
                    computed.made(result, [one for place, one in by_place.items() if of >> place & 1])
        return results

    return run


def inputs_of_results(graph: Any) -> Sequence[int]:
    """Of each result of an FX graph the inputs that decide it: a bit for each, by their places."""
    bits: dict[Any, int] = {None: 0}
    places = count()
    for node in graph.nodes:
        if node.op == "output":
            return [bits.get(result, 0) for result in node.args[0]]
        own = 1 << next(places) if node.op == "placeholder" else 0
        bits[node] = reduce(or_, (bits[one] for one in node.all_input_nodes), own)
    return ()


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
        elif not names.isdisjoint(re.findall(r"\w+", text)) and (called := _called_in(text)):
            return called
    return ""


def _called_in(text: str) -> str:
    """The kernel that a line of compiled code calls; empty if it calls none."""
    found = ((name, call.search(text)) for call, name in _CALLS)
    return next((name.format(one[1].replace(".", "::")) for name, one in found if one is not None), "")
