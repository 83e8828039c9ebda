"""Which module made a node of autograd: backward's memory is told under that module.

Nodes are numbered as they are made (``Node::sequence_nr``, torch/csrc/autograd/function.h), in each thread
by itself, so that a module's nodes lie between the numbers at its beginning and at its end.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import defaultdict

import torch


class ForwardModules:
    """The innermost module over the numbers of nodes, for each thread that ran a forward."""

    def __init__(self) -> None:
        self._numbers: defaultdict[int, list[int]] = defaultdict(list)
        self._modules: defaultdict[int, list[str | None]] = defaultdict(list)
        self._thread_of_task: dict[int, int] = {}
        self._first_thread = threading.get_ident()

    def entered(self, module: str | None) -> None:
        """From here on nodes that this thread makes are ``module``'s; None outside any."""
        thread = threading.get_ident()
        self._numbers[thread].append(torch._C._autograd._get_sequence_nr())
        self._modules[thread].append(module)

    def backward_begins(self, graph_task: int, thread: int) -> None:
        """The backward of number ``graph_task`` goes over nodes that ``thread`` has made."""
        self._thread_of_task[graph_task] = thread

    def module_of(self, node: int, graph_task: int) -> str | None:
        """The module that made the node of that number; None where it was made outside any."""
        thread = self._thread_of_task.get(graph_task, self._first_thread)
        place = bisect_right(self._numbers[thread], node) - 1
        return self._modules[thread][place] if place >= 0 else None
