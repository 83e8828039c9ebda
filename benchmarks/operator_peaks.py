"""What single operators (tests/gpu/gpu_operators.py) take on a card, each called twice; and estimates of it.

    python -m benchmarks.operator_peaks --out FILE                              # on a GPU: measure, into FILE
    python -m benchmarks.operator_peaks --measured FILE --report report.json    # compare

``report.json`` is that of ``pytest --membudget --membudget-report=FOLDER tests/gpu/test_operators.py``.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_TESTS = Path(__file__).parents[1] / "tests" / "gpu"


def main(arguments: list[str] | None = None) -> int:
    """Measure or compare; 1 where an operator failed, or is not as it was measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operator_peaks", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--out", type=Path, help="measure, and write this file")
    parser.add_argument("--measured", type=Path, help="a file that --out has written")
    parser.add_argument("--report", type=Path, help="the report of the estimates")
    options = parser.parse_args(arguments)
    if options.out:
        return _measure(options.out)
    if not (options.measured and options.report):
        parser.error("write --out FILE, or --measured FILE --report report.json")
    measured, report = (json.loads(path.read_text("utf-8")) for path in (options.measured, options.report))
    equal, lines = differences(measured["operators"], report)
    print(f"{equal} operators are estimated as they were measured", *lines, sep="\n")
    return 1 if lines or not equal else 0


def differences(measured: Mapping[str, Any], report: Mapping[str, Any]) -> tuple[int, list[str]]:
    """How many allocated peaks of ``report`` are those of ``measured``, and a line for each other one."""
    equal, lines = 0, []
    for row in report["tests"]:
        name = row["nodeid"].partition("[")[2].removesuffix("]")
        if name not in measured:
            continue
        measured_bytes = measured[name]["allocated_bytes"]
        said = _said(row["estimates"], measured_bytes)
        equal += not said
        if said:
            lines.append(f"{name}: {measured_bytes:,} bytes measured, {said}")
    return equal, lines


def _said(estimates: list[Mapping[str, Any]], measured_bytes: int) -> str:
    """What an estimate says that is not as measured, and what it names as unchecked."""
    if not estimates:
        return "no estimate"
    estimated_bytes = estimates[0]["peak"]["allocated"]
    if estimated_bytes == measured_bytes:
        return ""
    kinds = sorted({caveat["cause"] for caveat in estimates[0]["caveats"]} - {"method"})
    return f"{estimated_bytes:,} estimated; named: {', '.join(kinds) or 'nothing'}"


def _measure(out: Path) -> int:
    sys.path.insert(0, str(_TESTS))
    warnings.simplefilter("ignore")
    import torch

    operators = importlib.import_module("gpu_operators").OPERATORS
    names = list(importlib.import_module("test_operators").CEILINGS_MIB)
    found: dict[str, Any] = {}
    for name in names:
        try:
            found[name] = _peaks(operators[name])
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}"[:300], file=sys.stderr)
    versions = {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version()}
    content = {"card": torch.cuda.get_device_name(), **versions, "operators": found}
    out.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return 0 if len(found) == len(names) else 1


def _peaks(operator: Any) -> dict[str, int]:
    """Of two calls, beyond what was there: what earlier operators keep, cuDNN's weights, is told apart."""
    import torch

    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    held_bytes, reserved_bytes = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(2):
        operator()
        torch.cuda.synchronize()
    return {
        "allocated_bytes": torch.cuda.max_memory_allocated() - held_bytes,
        "reserved_bytes": torch.cuda.max_memory_reserved() - reserved_bytes,
        "held_before_bytes": held_bytes,
    }


if __name__ == "__main__":
    sys.exit(main())
