"""Where the user's code asks which rank it is: from there on ranks may do different things."""

import ast
import builtins
import functools
import itertools
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from types import CodeType, FrameType, ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import device_mesh
from torch.distributed import distributed_c10d as c10d
from torch.utils.data import DistributedSampler

from ....assumptions import IDENTICAL_RANKS, assumed
from ....tracking.running_code.source import SourceFinder, innermost
from .launching import PLACES, watch_environment
from .rank_comparisons import Comparisons, comparisons_of, imported_names, names_ranks, tree_of

_VARIABLES = tuple(name for name in PLACES if name.endswith("RANK"))
#: Calls that take the number of a rank's GPU for what it is.
_DEVICE_CALLS = ("set_device", "device", "to", "cuda", "DistributedDataParallel", "DDP")
_DEVICE_ARGUMENTS = ("device", "device_id", "device_ids", "output_device")
#: Folders of the standard library's that a read of the environment passes through.
_PASSED = ("os.py", "<frozen os>", "_collections_abc.py", "<frozen _collections_abc>")
#: Who reads so many variables in one place, one after the other, reads the whole environment. A launcher's
#: variables come last in it.
_WHOLE = 16
#: Of a syntax node, in the order of ``co_positions``.
_POSITION = ("lineno", "end_lineno", "col_offset", "end_col_offset")
#: What of Python's syntax a tensor has operators for.
_SIGNS = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript, ast.AugAssign)


class RankReads:
    """The user's lines that have asked for their rank."""

    def __init__(self, source: SourceFinder) -> None:
        self._source = source
        #: file and line, in the order of their coming up
        self.lines: dict[tuple[str, int], None] = {}
        #: the files that ran then, which may have got the answer
        self._running: set[str] = set()
        #: where the environment was read last, and how often in a row
        self._stack: list[int] = []
        self._in_a_row = 0
        self._end_of_imports: Callable[[], None] = lambda: None

    def watch_imports(self) -> None:
        """While files are imported, who reads the environment is seen: there is no process group yet."""
        self._end_of_imports = watch_environment(self._variable_read)

    def watch(self) -> None:
        """From here on who asks is seen."""
        for owner, name in (
            (c10d, "get_rank"), (c10d, "get_node_local_rank"), (c10d, "get_group_rank"),
            (device_mesh.DeviceMesh, "get_rank"), (device_mesh.DeviceMesh, "get_local_rank"),
            (device_mesh.DeviceMesh, "get_coordinate"), (dist.ProcessGroup, "rank"),
            (DistributedSampler, "__init__"),  # each rank has other data
        ):  # fmt: skip
            self._watch(owner, name)
        self._end_of_imports()
        watch_environment(self._variable_read)

    def picked(self, size: int, rank: int) -> set[int]:
        """Which of ``size`` ranks files pick that have asked, that those import, or that import those.

        Where a library has asked, all of the user's files.
        """
        asking = {file for file, _ in self.lines}
        files = asking | (self._asking() if any(map(self._source.is_users, asking)) else set())
        if not all(map(self._source.is_users, asking)):
            files |= {one for one in _modules() if self._source.is_users(one) and names_ranks(one)}
        numbers = {number for file in files for number in _numbers_of_ranks(file) if number < size}
        return numbers.union(*(one.picked(size, rank) for one in self._comparisons(files).values()))

    def has_names(self, size: int, rank: int) -> bool:
        """Whether the user's files that have asked, or have called those, pick a rank by no number."""
        found = self._comparisons(self._running)
        return any(one.has_names(size, rank) for file, one in found.items() if file in self._running)

    def _asking(self) -> set[str]:
        """The user's files that have asked, and those that import one of these."""
        modules = {file: one for file, one in _modules().items() if self._source.is_users(file)}
        found = {file for file, _ in self.lines if self._source.is_users(file)}
        waiting = [*found]
        while waiting:
            file = waiting.pop()
            name = modules[file].__name__.rpartition(".")[2] if file in modules else ""
            new = [one for one in modules.keys() - found if name and name in imported_names(one)]
            found.update(new)
            waiting += new
        return found

    def _comparisons(self, files: Iterable[str]) -> dict[str, Comparisons]:
        """Those of the user's among ``files``, and of what their modules name, by file."""
        asked = set(filter(self._source.is_users, files))
        modules = _modules()
        found = {file: comparisons_of(file) for file in asked}
        waiting = [*asked]
        while waiting:
            file = waiting.pop()
            if file not in modules:
                continue
            found[file] = comparisons_of(file)
            found[file].learn(vars(modules[file]))
            named = {_module_of(one) for one in [*vars(modules[file]).values()]}
            files = {str(getattr(sys.modules.get(name), "__file__", "")) for name in named}
            waiting += [one for one in files - found.keys() - {*waiting} if self._source.is_users(one)]
        return found

    def _watch(self, owner: Any, name: str) -> None:
        original = getattr(owner, name, None)
        if original is None:
            return

        @functools.wraps(original)
        def watched(*args: Any, **kwargs: Any) -> Any:
            self._asked(sys._getframe().f_back, by=name)  # none on a thread of the engine's
            return original(*args, **kwargs)

        setattr(owner, name, watched)
        if owner is c10d and getattr(dist, name, None) is original:
            setattr(dist, name, watched)

    def _variable_read(self, name: str, frame: FrameType | None) -> None:
        stack = [one.f_lasti for one, _ in traceback.walk_stack(frame)]
        self._in_a_row = self._in_a_row + 1 if stack == self._stack else 1
        self._stack = stack
        if name in _VARIABLES and self._in_a_row < _WHOLE:
            self._asked(frame, is_local=name == "LOCAL_RANK")

    def _asked(self, frame: FrameType | None, *, by: str = "", is_local: bool = False) -> None:
        while frame is not None and os.path.basename(frame.f_code.co_filename) in _PASSED:
            frame = frame.f_back
        if frame is None or not self._source.shows(frame.f_code.co_filename) or assumed(IDENTICAL_RANKS):
            return
        if by and _is_dispatching(frame, by):
            return
        place = (frame.f_code.co_filename, frame.f_lineno)
        if place in self.lines or not (is_local and _names_device_only(frame.f_code, frame.f_lineno)):
            self.lines[place] = None
            while frame is not None:  # not ``walk_stack``, which finds lines: libraries ask often
                self._running.add(frame.f_code.co_filename)
                frame = frame.f_back


def _is_dispatching(frame: FrameType, name: str) -> bool:
    """Whether PyTorch's C++ asks by ``name``, as it dispatches an operator of ``frame``'s line to a DTensor.

    It does so with this key excluded (``pythonFallback``, aten/src/ATen/core/PythonFallbackKernel.cpp, 2.13),
    as below every ``__torch_dispatch__``; what a line asks there itself counts. Autograd excludes nothing as
    it detaches a result that it keeps (``SavedVariable``, torch/csrc/autograd/saved_variable.cpp, 2.13).
    """
    if name in frame.f_code.co_names:
        return False
    if _is_in_operator(frame.f_code, frame.f_lasti):
        return True
    if not torch._C._dispatch_tls_is_dispatch_key_excluded("PythonTLSSnapshot"):
        return False
    around: FrameType | None = frame
    while around is not None and around.f_code.co_name != "__torch_dispatch__":
        around = around.f_back
    return around is None


def _is_in_operator(code: CodeType, instruction: int) -> bool:
    """Whether ``instruction`` of ``code`` is an operator's sign, or a call of what is named as one (3.11)."""
    if sys.version_info < (3, 11):
        return False
    place = next(itertools.islice(code.co_positions(), instruction // 2, None))
    return place in _operators(code.co_filename)


@functools.lru_cache(maxsize=256)
def _operators(file: str) -> frozenset[tuple[int | None, ...]]:
    """Where operators may be called in ``file``."""
    return frozenset(
        tuple(getattr(node, name, None) for name in _POSITION)
        for node in ast.walk(tree_of(file))
        if isinstance(node, _SIGNS) or (isinstance(node, ast.Call) and _may_call_operator(node))
    )


def _may_call_operator(call: ast.Call) -> bool:
    called = _called(call)
    if isinstance(call.func, ast.Name) and hasattr(builtins, called):
        return False  # a plain max or sum calls what it is given
    return hasattr(torch, called) or hasattr(torch.Tensor, called)


@functools.lru_cache(maxsize=256)
def _numbers_of_ranks(file: str) -> frozenset[int]:
    """Whole numbers with which ``file`` compares what is named as a rank, but what is taken off a number."""
    compared = [node for node in ast.walk(tree_of(file)) if isinstance(node, ast.Compare)]
    nodes = [one for node in compared if "rank" in ast.unparse(node).lower() for one in ast.walk(node)]
    negative = [one.operand for one in nodes if isinstance(one, ast.UnaryOp)]
    negative += [one.right for one in nodes if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Sub)]
    constants = [str(one.value) for one in nodes if isinstance(one, ast.Constant) and one not in negative]
    return frozenset(int(text) for text in constants if text.isdecimal())


def _modules() -> dict[str, ModuleType]:
    """What has been imported, by file."""
    return {str(getattr(one, "__file__", "")): one for one in [*sys.modules.values()]}


def _module_of(value: Any) -> str:
    """The name of a module, or of that of a function or class."""
    return str(getattr(value, "__name__" if isinstance(value, ModuleType) else "__module__", ""))


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _names_device_only(code: CodeType, line: int) -> bool:
    """Whether what ``line`` reads is used in its function to name the rank's device, and for nothing else."""
    tree = tree_of(code.co_filename)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    scope = innermost(tree, line, (ast.FunctionDef, ast.AsyncFunctionDef)) or tree
    statement = innermost(scope, line, (ast.stmt,), simple=True)
    if statement is None:
        return False
    if isinstance(statement, ast.Assign):
        target = statement.targets[0]
        if len(statement.targets) != 1 or not isinstance(target, ast.Name):
            return False
        uses = [node for node in ast.walk(scope) if _is_use(node, target.id)]
        return all(_is_device(use, parents) for use in uses)
    reads = [
        node for node in ast.walk(statement) if isinstance(node, ast.Constant) and node.value == "LOCAL_RANK"
    ]
    return bool(reads) and all(_is_device(read, parents) for read in reads)


def _is_use(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)


def _is_device(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether ``node`` ends up in a call, or in an argument, that names a device."""
    above = parents.get(node)
    while above is not None and not isinstance(above, ast.stmt):
        if isinstance(above, ast.keyword) and above.arg in _DEVICE_ARGUMENTS:
            return True
        if isinstance(above, ast.Call) and node is not above.func:
            called = _called(above)
            if called in _DEVICE_CALLS:
                return True
            if called not in ("int", "get", "getenv"):
                return False
        if isinstance(above, (ast.Compare, ast.BinOp, ast.IfExp)):
            return False
        node, above = above, parents.get(above)
    return False
