"""``membudget histories``: two allocator histories, compared.

Both are snapshots as ``torch.cuda.memory._dump_snapshot`` writes them: one recorded on a GPU after
``torch.cuda.memory._record_memory_history()``, the other by ``pytest --membudget --membudget-report=DIR``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ..histories.comparison import sides
from ..histories.reading import read_snapshot, window_from
from ..histories.text import comparison_lines
from .terminal import Subcommands, print_lines


def add_to(commands: Subcommands) -> None:
    """Add the subcommand ``histories``."""
    parser = commands.add_parser(
        "histories",
        help="compare a recorded allocator history with a virtual one",
        description="What two allocator histories do not have in common: requests by place and size.",
    )
    parser.set_defaults(run=_run)
    parser.add_argument("recorded", type=Path, help="a snapshot from a GPU")
    parser.add_argument("virtual", type=Path, help="a snapshot of the same code from the virtual device")
    parser.add_argument("--device", type=int, default=0, help="device of the recorded snapshot (default 0)")
    start = "first event: its number, or a text set by torch.cuda.memory._set_memory_metadata"
    parser.add_argument("--from", dest="start", metavar="EVENT", help=f"{start} (of both)")
    parser.add_argument("--virtual-from", metavar="EVENT", help="the same of the virtual snapshot alone")


def _run(options: argparse.Namespace) -> int:
    first = read_snapshot(options.recorded, options.device)
    second = read_snapshot(options.virtual)
    if options.start is not None:
        first = window_from(first, options.start, str(options.recorded))
    virtual_start = options.virtual_from or options.start
    if virtual_start is not None:
        second = window_from(second, virtual_start, str(options.virtual))
    print_lines(comparison_lines(*sides(first, second), ("recorded", "virtual")))
    return 0
