"""Run the same work on the stand-in and on fake tensors, and compare bytes and requests.

    python -m benchmarks.parity                                  # all of it
    python -m benchmarks.parity --part operators --part steps    # some of it; the pages keep the rest
    python -m benchmarks.parity --operators sort linalg.svd      # these of PyTorch's operators
    python -m benchmarks.parity --only-kept                      # run nothing: pages from the kept results
    python -m benchmarks.parity --page FILE                      # the long page goes there

Both devices run on the same CUDA build of torch, each in separate processes. Differences are kept, a line for
each operator and phase, in ``benchmarks/parity/results``; ``--out FOLDER`` has every sample. The long page,
with a row for each difference, is a build artefact (default ``build/reports/parity.md``); the counts in
``docs/accuracy.md`` are written between two markers.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.pages import write_pages

from .page import parity_page, parity_summary
from .parts import PARTS, run_part
from .reasons import read_reasons
from .results import FOLDER, Part


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for, and write the pages; the exit status."""
    options = _options(arguments)
    for name in _chosen(options):
        run_part(name, options)
    parts = [Part.read(FOLDER, name) for name in PARTS]
    write_pages("parity", parity_page(parts, read_reasons()), parity_summary(parts), options.page)
    return 0


def _chosen(options: Any) -> list[str]:
    if options.only_kept:
        return []
    if options.operators:
        return ["operators"]
    return list(options.part or PARTS)


def _options(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.parity", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--part", action="append", choices=PARTS, help="this part; may be repeated")
    parser.add_argument("--operators", nargs="+", metavar="NAME", help="these operators, as op_db names them")
    parser.add_argument(
        "--samples", type=int, help="of an operator's samples in float32 only so many, spread evenly over all"
    )
    parser.add_argument("--only", nargs="+", metavar="ID", help="these steps or test files")
    parser.add_argument("--resume", action="store_true", help="only what the kept results do not have")
    parser.add_argument(
        "--only-kept", action="store_true", help="run nothing: write the pages from the kept results"
    )
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="the long page (default build/reports/parity.md)"
    )
    parser.add_argument("--gpu", default="A100-80GB", help="the card of both devices (default A100-80GB)")
    parser.add_argument("--out", type=Path, help="a folder for every difference, as JSON lines")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds a piece of work may take")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
