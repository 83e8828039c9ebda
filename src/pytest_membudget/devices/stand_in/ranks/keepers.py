"""Code that keeps buffers for its collectives alone: what it hands to one is such a buffer."""

from __future__ import annotations

import os
from types import FrameType

from ....tracking.running_code.source import SourceFinder
from ..values.device_query import called_by_engine

_KEEPERS = tuple(
    os.path.join("torch", *path)
    for path in (
        ("distributed", "fsdp", ""),
        ("distributed", "algorithms", ""),
        ("nn", "parallel", "distributed.py"),
    )
)


def is_keepers(frame: FrameType | None, source: SourceFinder) -> bool:
    """Whether such code asked for the collective that ``frame`` runs: FSDP, DDP in Python or C++."""
    if called_by_engine(frame):
        return True
    while frame is not None and not source.shows(frame.f_code.co_filename):
        if any(part in frame.f_code.co_filename for part in _KEEPERS):
            return True
        frame = frame.f_back
    return False
