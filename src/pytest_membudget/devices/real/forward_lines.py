"""ForwardLines: the line of the forward that made a node of a backward, by autograd's sequence numbers."""

import re
import threading
from collections.abc import Callable
from typing import Any, Final

import torch

from ...tracking.record import Line
from ...tracking.running_code.source import SourceFinder

_next_node = torch.autograd._get_sequence_nr  # type: ignore[attr-defined]
#: Key in the metadata of nodes that have a hook.
_HAS_HOOK: Final = "membudget line"
#: Names, without their end, of nodes of operators that have no kernel: another may run before the next
#: kernel. Views (``is_view`` of the dispatcher's operators, 2.11 to 2.15), and ``_unsafe_view``.
_VIEWS: Final = (
    "Adjoint Alias AlignTo AsStrided BroadcastTo CcolIndices Chunk ColIndices Conj CrowIndices Detach "
    "Diagonal Dsplit Expand ExpandAs Flatten FwPrimal Hsplit Imag Indices LiftFresh LinalgDiagonal "
    "MatrixH Mh Moveaxis Movedim Mt Narrow NegView NestedGetValues NestedViewFromBuffer "
    "NestedViewFromJagged NumpyT Permute Positive Ravel Real RefineNames Rename Reshape ReshapeAlias "
    "ReshapeAs ResolveConj ResolveNeg RowIndices Select Slice SliceInverse SparseBroadcastTo Split "
    "SplitWithSizes Squeeze Swapaxes Swapdims T TensorSplit Transpose Unbind Unflatten Unfold UnpackDual "
    "UnsafeView Unsqueeze Values View ViewAs ViewAsComplex ViewAsReal Vsplit"
)
WITHOUT_KERNEL: Final = frozenset(_VIEWS.split())
_END: Final = re.compile(r"Backward\d+$")


class _Own(threading.local):
    """What one thread has made: autograd numbers the nodes of each thread."""

    def __init__(self) -> None:
        self.next = 0
        self.lines: dict[int, Line] = {}


class ForwardLines:
    """Learns the lines as operators run, and enters them as nodes run.

    Known are nodes of operators that have a kernel: of a view's, whose line nobody sees, nothing is said.
    """

    def __init__(self, source: SourceFinder, entered: Callable[[Line | None], None]) -> None:
        """``entered``: called when a node runs, with the line that made it; None if that is not known."""
        self._source = source
        self._entered = entered
        self._own = _Own()
        self.is_on = True
        self._hooks: dict[Line | None, Callable[[object], None]] = {}

    def operator_runs(self) -> None:
        """A kernel is about to run: autograd has made its node, if there is one."""
        if not self.is_on:
            return
        own, following = self._own, _next_node()
        if following != own.next and torch.is_grad_enabled():
            own.next = following
            file, line = self._source.find(2)
            if file is not None:
                own.lines[following - 1] = file, line

    def follow(self, node: Any) -> None:
        """A backward begins that may run ``node``, which gets a hook."""
        lines = self._own.lines
        if lines and _HAS_HOOK not in node.metadata:
            node.metadata[_HAS_HOOK] = True
            line = lines.get(node._sequence_nr()) if _has_kernel(node) else None
            node.register_prehook(self._hook(line))

    def _hook(self, line: Line | None) -> Callable[[object], None]:
        # its result is None: it changes no gradient
        return self._hooks.setdefault(line, lambda gradients: self._entered(line))


def _has_kernel(node: Any) -> bool:
    is_users = isinstance(node, torch.autograd.function.BackwardCFunction)
    return not is_users and _END.sub("", node.name()) not in WITHOUT_KERNEL
