"""PyTorch's test classes that start one process per rank: our ranks run the body, and start none."""

from __future__ import annotations

import sys
import unittest
from collections.abc import Callable
from typing import Any

import pytest

#: It is private to PyTorch's tests, and used in others'. Read in torch 2.13 and 2.15.
_MODULE = "torch.testing._internal.common_distributed"


def start_no_processes(item: pytest.Item) -> None:
    """Let ``item`` run its body in this process, if its class is a ``MultiProcessTestCase``.

    Its instances call ``_spawn_processes`` in ``setUp``, and ``_join_processes(body)`` as the test.
    """
    module = sys.modules.get(_MODULE)
    owner = getattr(item, "cls", None)
    if module is None or owner is None or not issubclass(owner, module.MultiProcessTestCase):
        return
    owner._spawn_processes = lambda test: None
    owner._join_processes = _body_as_rank


def _body_as_rank(test: Any, body: Callable[[], object]) -> None:
    """Run ``body`` as the rank that this process is."""
    import torch.distributed as dist

    gpus = dist.get_world_size() if dist.is_initialized() else 1
    name, ranks = type(test).__name__, int(test.world_size)
    if ranks != gpus:
        pytest.fail(f"{name} starts {ranks} processes: write gpus={ranks} in its mark", pytrace=False)
    test.rank = dist.get_rank() if dist.is_initialized() else 0
    try:
        body()
    except SystemExit as error:  # how decorators as skip_if_lt_x_gpu skip in a process
        skips = {skip.exit_code: skip.message for skip in sys.modules[_MODULE].TEST_SKIPS.values()}
        if error.code not in skips:
            raise
        raise unittest.SkipTest(skips[error.code]) from None
