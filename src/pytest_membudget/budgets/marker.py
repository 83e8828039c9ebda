"""From ``mem_budget`` marks to a Budget, each value checked."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..components import COMPONENTS, METRICS, METRICS_WITH
from ..errors import UsageMistake
from ..hardware.gpus import find_gpu
from ..names import MARKER
from .budget import Budget
from .growth import parse_growth

#: Four times what one published job has run on (Llama 3: 16,384 H100, arXiv:2407.21783): more is a slip.
_MOST_GPUS = 65_536


def read_budget(
    marks: Iterable[tuple[tuple[Any, ...], Mapping[str, Any]]], defaults: Mapping[str, Any]
) -> Budget:
    """The budget that ``marks`` say, closest first: the closest wins, argument by argument.

    Each mark is its positional and its keyword arguments. ``defaults`` are those of the command line and
    the settings. Raises ``UsageMistake`` with the value as written and what to write instead.
    """
    values: dict[str, Any] = {}
    for args, kwargs in marks:
        if args:
            shown = ", ".join(repr(value) for value in args)
            raise UsageMistake(f"{MARKER}({shown}): arguments go by name; write {MARKER}(gib={args[0]!r})")
        for name, value in kwargs.items():
            _known(name, value)
            values.setdefault(name, value)
    written = {name: value for name, value in values.items() if value is not None}
    for name, value in written.items():
        _CHECKS[name](name, value)
    budget = Budget(**{**defaults, **written})
    _limits_something(budget, written)
    _metric_has_components(budget)
    _ranks_are_there(budget)
    _host_has_all_ranks(budget)
    return budget


def _known(name: str, value: object) -> None:
    if name not in _CHECKS:
        near = difflib.get_close_matches(name, _CHECKS, n=1)
        hint = f"; did you mean {near[0]}?" if near else "."
        raise UsageMistake(
            f"{_written(name, value)}: there is no argument {name!r}{hint} "
            f"The arguments are {', '.join(_CHECKS)}."
        )


def _limits_something(budget: Budget, written: Mapping[str, Any]) -> None:
    # growth that the settings allow is no limit of this test's
    budget = budget if "max_growth" in written else replace(budget, max_growth=None)
    if not budget.limits_card and budget.host_gib is None:
        raise UsageMistake(
            f"{MARKER}({', '.join(f'{name}={value!r}' for name, value in written.items())}): "
            "this limits nothing; write gib=40, or gpu='H100-80GB' for what that card can hold"
        )


def _metric_has_components(budget: Budget) -> None:
    for component, metrics in METRICS_WITH.items():
        if component in budget.components and budget.metric not in metrics:
            raise UsageMistake(
                f"{_written('components', budget.components)}: {component!r} is no part of "
                f"{budget.metric} memory, so its budget would check nothing; "
                f"write metric={metrics[0]!r}, or leave {component!r} out"
            )


def _ranks_are_there(budget: Budget) -> None:
    named = budget.named_ranks or ()
    if any(not 0 <= rank < budget.gpus for rank in named):
        there = f"its ranks are 0 to {budget.gpus - 1}" if budget.gpus > 1 else "there is rank 0 alone"
        raise UsageMistake(
            f"{_written('ranks', budget.ranks)}: with gpus={budget.gpus} {there}; "
            "write ranks that there are, or the number of GPUs that the test is for, as in gpus=8"
        )


def _host_has_all_ranks(budget: Budget) -> None:
    named = budget.named_ranks
    if budget.host_gib is not None and named is not None and len(named) < budget.gpus:
        raise UsageMistake(
            f"{_written('host_gib', budget.host_gib)}: this is for all ranks of a machine together, and "
            f"ranks={budget.ranks!r} leaves some of them out; write it without ranks, in a test of its own"
        )


def _written(name: str, value: object) -> str:
    return f"{MARKER}({name}={value!r})"


def _size(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        kind = type(value).__name__
        raise UsageMistake(
            f"{_written(name, value)}: {name} is a {kind}; write a number of GiB, as in {name}=40"
        )
    if not 0 < value < math.inf:
        raise UsageMistake(f"{_written(name, value)}: write a finite number of GiB above 0, as in {name}=40")


def _gpus(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageMistake(f"{_written(name, value)}: write a whole number of GPUs, as in gpus=1")
    if value < 1:
        raise UsageMistake(f"{_written(name, value)}: a test needs at least one GPU; write gpus=1")
    if value > _MOST_GPUS:
        raise UsageMistake(f"{_written(name, value)}: write the number of GPUs, {_MOST_GPUS} at most")


def _gpu(name: str, value: object) -> None:
    card = _text(name, value, "H100-80GB")
    try:
        find_gpu(card)
    except UsageMistake as error:
        raise UsageMistake(f"{_written(name, value)}: {error}") from None


def _metric(name: str, value: object) -> None:
    if value not in METRICS:
        raise UsageMistake(f"{_written(name, value)}: write one of {', '.join(map(repr, METRICS))}")


def _components(name: str, value: object) -> None:
    if not isinstance(value, Mapping) or not value:
        raise UsageMistake(
            f"{_written(name, value)}: write GiB by component, as in components={{'activations': 12}}"
        )
    for component, gib in value.items():
        if component not in COMPONENTS:
            near = difflib.get_close_matches(str(component), COMPONENTS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else "; they are " + ", ".join(COMPONENTS)
            raise UsageMistake(f"{_written(name, value)}: there is no component {component!r}{hint}")
        try:
            _size(component, gib)
        except UsageMistake:
            raise UsageMistake(
                f"{_written(name, value)}: {component!r} is {gib!r}; write a number of GiB above 0, as in "
                f"components={{{component!r}: 12}}"
            ) from None


def _growth(name: str, value: object) -> None:
    try:
        parse_growth(value)
    except ValueError as error:
        raise UsageMistake(f"{_written(name, value)}: {error}") from None


def _ranks(name: str, value: object) -> None:
    numbers = isinstance(value, (list, tuple)) and value and all(type(rank) is int for rank in value)
    if value not in ("first", "last", "all") and not numbers and type(value) is not int:
        raise UsageMistake(
            f"{_written(name, value)}: write 'first', 'last', 'all' or rank numbers, as in ranks=[0, 7]"
        )


def _scenario(name: str, value: object) -> None:
    if not isinstance(value, str) or not all(value.partition("::")):
        raise UsageMistake(
            f"{_written(name, value)}: write file::name, as in scenario='budgets.membudget.yaml::llama3-8b'"
        )


def _reason(name: str, value: object) -> None:
    _text(name, value, "the teacher alone takes 15 GiB")


def _text(name: str, value: object, example: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UsageMistake(f"{_written(name, value)}: write a text, as in {name}={example!r}")
    return value


_CHECKS: dict[str, Callable[[str, object], None]] = {
    "gib": _size,
    "gpus": _gpus,
    "gpu": _gpu,
    "host_gib": _size,
    "metric": _metric,
    "components": _components,
    "max_growth": _growth,
    "ranks": _ranks,
    "scenario": _scenario,
    "reason": _reason,
}
