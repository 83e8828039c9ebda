"""Tests that start one process per rank, by PyTorch's means: our ranks run the body, and start none."""

import sys
import unittest
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch.distributed as dist

#: It is private to PyTorch's tests, and used in others'. Read in torch 2.13 and 2.15.
_MODULE = "torch.testing._internal.common_distributed"
#: The module of ``spawn``, which calls its ``start_processes``; the package's attribute is the function.
_SPAWNING: Any = sys.modules["torch.multiprocessing.spawn"]


#: Called with how many processes are started, and by what: the rank that this process is of them.
RankAmong = Callable[[int, str], int]


def start_no_processes(item: pytest.Item) -> None:
    """Let ``item`` run in this process what each process of ``spawn`` or ``MultiProcessTestCase`` would run.

    ``item`` has not begun. Instances of the class call ``_spawn_processes`` in ``setUp``, and
    ``_join_processes(body)`` as the test.
    """
    is_rank = dist.is_available() and dist.is_initialized()
    rank, ranks = (dist.get_rank(), dist.get_world_size()) if is_rank else (0, 1)

    def rank_among(processes: int, starter: str) -> int:
        if processes != ranks:
            text = f"{starter} starts {processes} processes: write gpus={processes} in its mark"
            pytest.fail(text, pytrace=False)
        return rank

    _SPAWNING.start_processes = partial(_spawned_as_rank, rank_among)
    module = sys.modules.get(_MODULE)
    owner = getattr(item, "cls", None)
    if module is None or owner is None or not issubclass(owner, module.MultiProcessTestCase):
        return
    owner._spawn_processes = lambda test: None
    owner._join_processes = lambda test, body: _body_as_rank(rank_among, test, body)


def _spawned_as_rank(
    rank_among: RankAmong,
    function: Callable[..., object],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    *_: Any,
    **__: Any,
) -> Any:
    """``torch.multiprocessing.spawn``: ``function(i, *args)`` as the process ``i`` that this one is."""
    function(rank_among(nprocs, "torch.multiprocessing.spawn"), *args)
    return None if join else _SPAWNING.ProcessContext([], [])


def _body_as_rank(rank_among: RankAmong, test: Any, body: Callable[[], object]) -> None:
    """Run ``body`` as the rank that this process is."""
    test.rank = rank_among(int(test.world_size), type(test).__name__)
    try:
        body()
    except SystemExit as error:  # how decorators as skip_if_lt_x_gpu skip in a process
        skips = {skip.exit_code: skip.message for skip in sys.modules[_MODULE].TEST_SKIPS.values()}
        if error.code not in skips:
            raise
        raise unittest.SkipTest(skips[error.code]) from None
