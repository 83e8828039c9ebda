"""Makes a ``Budget`` of a test's ``mem_budget`` marks, and checks their values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..components import METRICS_WITH
from ..errors import UsageMistake
from ..hardware.gpus import find_gpu
from ..names import MARKER
from ..units import GIB, MIB
from ..user_input.fields import read_fields
from ..user_input.nodes import PYTHON, Mistakes, Node, nodes_of
from .budget import ARGUMENTS, Budget


def read_budget(
    marks: Iterable[tuple[tuple[Any, ...], Mapping[str, Any]]], defaults: Mapping[str, Any]
) -> Budget:
    """The budget of ``marks``, closest first: the closest wins, argument by argument.

    Each mark is its positional and its keyword arguments. ``defaults`` are those of the command line and
    the settings. Raises ``UsageMistake`` with the value as written and what to write instead.
    """
    values: dict[str, Any] = {}
    for args, kwargs in marks:
        if args:
            shown = ", ".join(repr(value) for value in args)
            raise UsageMistake(
                f"{MARKER}({shown}): arguments go by name; write {MARKER}({_by_name(args[0])})"
            )
        for name, value in kwargs.items():
            values.setdefault(name, value)
    mistakes = Mistakes()
    nodes = {
        name: nodes_of(value, Node(None, f"{MARKER}({name}={value!r})", syntax=PYTHON))
        for name, value in values.items()
    }
    written = {name: value for name, value in values.items() if value is not None}
    shown = ", ".join(f"{name}={value!r}" for name, value in written.items())
    mark = Node(written, f"{MARKER}({shown})", syntax=PYTHON)
    read_fields(ARGUMENTS, nodes, mark, "", mistakes)
    _raise_first(mistakes)
    budget = Budget(**{**defaults, **written})
    check_budget(budget, {name: nodes[name] for name in written}, mark, mistakes)
    _raise_first(mistakes)
    return budget


def _by_name(value: Any) -> str:
    """The keyword argument that a positional ``value`` was probably meant for, as it is written."""
    if not isinstance(value, str):
        is_size = type(value) in (int, float) and 0 < value < math.inf
        return f"gib={value!r}" if is_size else "gib=40"
    size = re.fullmatch(r"\s*([0-9.]+)\s*(GiB|GB|G|MiB|MB|M)?\s*", value, re.IGNORECASE)
    try:
        if size is None:
            return f"gpu={find_gpu(value).name!r}"
        unit = (size[2] or "GiB").lower()
        bytes_of_unit = {"gb": 10**9, "mb": 10**6}.get(unit, GIB if unit.startswith("g") else MIB)
        gib = float(size[1]) * bytes_of_unit / GIB
        return f"gib={gib:.3g}" if gib else "gib=40"
    except (UsageMistake, ValueError):
        return "gib=40"


def _raise_first(mistakes: Mistakes) -> None:
    """``text`` in one line, as the reason of a verdict is."""
    if mistakes:
        raise UsageMistake(mistakes.lines[0])


def check_budget(budget: Budget, written: Mapping[str, Node], place: Node, mistakes: Mistakes) -> None:
    """Collect fields of ``budget`` that contradict each other.

    ``written`` are the fields that the user has written at ``place``, without the settings' defaults.
    """
    for component, metrics in METRICS_WITH.items():
        if component in budget.components and budget.metric not in metrics:
            what = f"{component} is no part of {budget.metric} memory, so its budget would check nothing"
            remedy = f"{place.example('metric', metrics[0])}, or leave {component} out"
            mistakes.refuse(written["components"], "components", f"{what}; write {remedy}")
    named = budget.named_ranks
    if any(not 0 <= rank < budget.gpus for rank in named or ()):
        there = f"its ranks are 0 to {budget.gpus - 1}" if budget.gpus > 1 else "there is rank 0 alone"
        remedy = "write ranks that there are, or the number of GPUs that the test is for, as in gpus=8"
        mistakes.refuse(written["ranks"], "ranks", f"with gpus={budget.gpus} {there}; {remedy}")
    if budget.host_gib is not None and named is not None and len(named) < budget.gpus:
        what = f"this is for all ranks of a machine, and ranks={budget.ranks!r} leaves some of them out"
        mistakes.refuse(written["host_gib"], "host_gib", f"{what}; write it without ranks, in another test")
