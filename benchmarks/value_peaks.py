"""What the bodies of tests/gpu/test_values.py take on a card, each in a process of its own.

    python -m benchmarks.value_peaks --out FILE    # on a GPU: measure, into FILE

``python -m benchmarks.operator_peaks --measured FILE --report report.json`` compares estimates with it;
``report.json`` is that of ``pytest --membudget --membudget-report=FOLDER tests/gpu/test_values.py``. Peaks of
the allocator do not depend on other processes, so several run at once: 85 bodies took 32 s on an H200.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import sys
import warnings
from pathlib import Path
from typing import Any

_TESTS = Path(__file__).parents[1] / "tests" / "gpu"
_AT_ONCE = 12


def main(arguments: list[str] | None = None) -> int:
    """Measure; 1 where a body failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.value_peaks", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--out", type=Path, required=True, help="write this file")
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(_TESTS))
    warnings.simplefilter("ignore")
    import torch  # before the processes are forked, which begin to use the card

    tests = importlib.import_module("test_values")
    names = [*tests.INDEPENDENT, *tests.DEPENDENT]
    with multiprocessing.get_context("fork").Pool(_AT_ONCE, maxtasksperchild=1) as pool:
        card, *answers = pool.map(_answer, ["", *names], chunksize=1)
    found = dict(zip(names, answers, strict=True))
    failed = {name: one for name, one in found.items() if isinstance(one, str)}
    print(*(f"{name}: {why}" for name, why in failed.items()), sep="\n", file=sys.stderr)
    kept = {name: one for name, one in found.items() if name not in failed}
    content = {"card": card, "torch": torch.__version__, "operators": kept}
    options.out.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return 1 if failed else 0


def _answer(name: str) -> dict[str, int] | str:
    """The peaks of the body ``name``, or why there are none; of no body the name of the card."""
    import torch

    if not name:
        return torch.cuda.get_device_name()
    try:
        torch.manual_seed(0)
        _body(name)()
        torch.cuda.synchronize()
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    return {
        "allocated_bytes": torch.cuda.max_memory_allocated(),
        "reserved_bytes": torch.cuda.max_memory_reserved(),
    }


def _body(name: str) -> Any:
    modules = map(importlib.import_module, ("gpu_values", "gpu_values_algorithms", "gpu_values_sizes"))
    return next(vars(module)[name] for module in modules if name in vars(module))


if __name__ == "__main__":
    sys.exit(main())
