"""Writes a snapshot to its file atomically; an error does not fail the test."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from ....atomic_files import replacing

#: The newest that PyTorch's viewer reads (``unpickle`` in torch/utils/viz/MemoryViz.js, 2.13).
_PROTOCOL = 4


def write_snapshot(path: Path, snapshot: dict[str, Any] | None) -> dict[str, Any]:
    """Write ``snapshot`` to ``path``, and make its folder. None: no file should be there.

    The answer is a worker's: ``has_snapshot``, and in ``snapshot_error`` why it could not be written. After
    an error, a file of an earlier run stays.
    """
    try:
        if snapshot is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as file:
                pickle.dump(snapshot, file, protocol=_PROTOCOL)
        elif path.parent.is_dir():
            path.unlink(missing_ok=True)  # an earlier run's
    except OSError as error:
        return {"has_snapshot": False, "snapshot_error": f"{error.strerror or error}: {path.parent}"}
    return {"has_snapshot": snapshot is not None}
