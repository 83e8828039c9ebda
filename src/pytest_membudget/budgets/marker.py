"""``mem_budget`` marks: makes a ``Budget`` of those of a test, and checks their values."""

from collections.abc import Iterable, Mapping
from typing import Any

from ..components import METRICS_WITH
from ..errors import UsageMistake
from ..names import MARKER
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
            raise UsageMistake(f"{MARKER}({shown}): arguments go by name; write {MARKER}(gib=40)")
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
    if read_fields(ARGUMENTS, nodes, mark, "", mistakes) is not None:
        budget = Budget(**{**defaults, **written})
        check_budget(budget, {name: nodes[name] for name in written}, mark, mistakes)
        if not mistakes:
            return budget
    raise UsageMistake(mistakes.lines[0])  # in one line, as the reason of a verdict is


def check_budget(budget: Budget, written: Mapping[str, Node], place: Node, mistakes: Mistakes) -> None:
    """Collect fields of ``budget`` that contradict each other.

    ``written`` are the fields that the user has written at ``place``, without the settings' defaults.
    """
    for component, metrics in METRICS_WITH.items():
        if component in budget.components and budget.metric not in metrics:
            what = f"{component} is no part of {budget.metric} memory, so its budget would check nothing"
            remedy = f"{place.example('metric', metrics[0])}, or leave {component} out"
            mistakes.refuse(written["components"], "components", f"{what}; write {remedy}")
