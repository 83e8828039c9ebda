"""Compares two allocator histories: ``python -m pytest_membudget.histories recorded virtual``.

Both are snapshots as ``torch.cuda.memory._dump_snapshot`` writes them: one recorded on a GPU after
``torch.cuda.memory._record_memory_history()``, the other by ``pytest --membudget --membudget-report=DIR``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ..errors import UsageMistake
from .comparison import sides
from .reading import read_snapshot, window_from
from .text import comparison_lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare and print; 0, or 2 for files that cannot be read."""
    parser = argparse.ArgumentParser(
        prog="python -m pytest_membudget.histories",
        description="What two recorded allocator histories have unequally: requests by place and size.",
    )
    parser.add_argument("recorded", type=Path, help="a snapshot from a GPU")
    parser.add_argument("virtual", type=Path, help="a snapshot of the same code from the virtual device")
    parser.add_argument("--device", type=int, default=0, help="device of the recorded snapshot (default 0)")
    start = "first event: its number, or a text set by torch.cuda.memory._set_memory_metadata"
    parser.add_argument("--from", dest="start", metavar="EVENT", help=f"{start} (of both)")
    parser.add_argument("--virtual-from", metavar="EVENT", help="the same of the virtual snapshot alone")
    options = parser.parse_args(arguments)
    try:
        first = read_snapshot(options.recorded, options.device)
        second = read_snapshot(options.virtual)
        if options.start is not None:
            first = window_from(first, options.start, str(options.recorded))
        virtual_start = options.virtual_from or options.start
        if virtual_start is not None:
            second = window_from(second, virtual_start, str(options.virtual))
    except UsageMistake as error:
        print(f"histories: {error}", file=sys.stderr)
        return 2
    for line in comparison_lines(*sides(first, second), ("recorded", "virtual")):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
