"""CUDA in a child of fork: PyTorch refuses it after the parent has used CUDA, as a driver would not survive.

There is no driver here. What imports have done on the cards is there for each test's own process.
"""

from __future__ import annotations

from typing import Any

import torch


def allow_cuda_after_fork() -> None:
    """Let children of this process go on with CUDA.

    Of torch a private part: ``torch.cuda._is_in_bad_fork``, by which ``torch.cuda._lazy_init`` refuses; see
    tests/stand_in/test_after_fork.py.
    """
    cuda: Any = torch.cuda
    cuda._is_in_bad_fork = lambda: False
