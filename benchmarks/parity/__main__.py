"""The same work on the stand-in and on the device of fake tensors, side by side: bytes and requests.

    python -m benchmarks.parity                                  # all of it, and the page docs/parity.md
    python -m benchmarks.parity --part operators --part steps    # some of it; the page has the rest as it was
    python -m benchmarks.parity --operators sort linalg.svd      # these of PyTorch's operators
    python -m benchmarks.parity --page                           # the page alone, from the kept results

Both devices run on the same CUDA build of torch, each in processes of its own. What differs is kept, a line
for each operator and phase, in ``benchmarks/parity/results``; ``--out FOLDER`` has every sample.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .page import parity_page
from .parts import PARTS, run_part
from .reasons import read_reasons
from .results import FOLDER, Part

_PAGE = Path(__file__).parents[2] / "docs" / "parity.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for, and write the page; the exit status."""
    options = _options(arguments)
    for name in _chosen(options):
        run_part(name, options)
    parts = [Part.read(FOLDER, name) for name in PARTS]
    _PAGE.write_text(parity_page(parts, read_reasons()), encoding="utf-8")
    print(f"written: {_PAGE}")
    return 0


def _chosen(options: Any) -> list[str]:
    if options.page:
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
    parser.add_argument("--page", action="store_true", help="run nothing, write the page")
    parser.add_argument("--gpu", default="A100-80GB", help="the card of both devices (default A100-80GB)")
    parser.add_argument("--out", type=Path, help="a folder for every difference, as JSON lines")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds a piece of work may take")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
