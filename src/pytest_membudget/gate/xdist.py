"""Messages between pytest-xdist's controller and its workers, at the workers' start and end."""

from dataclasses import asdict, dataclass
from typing import Any

import pytest

from ..comparison.base.invocation import Invocation

#: Our key in ``workerinput`` and ``workeroutput``.
_OURS = "membudget"


@dataclass(frozen=True, slots=True)
class End:
    """What a process reports at its end; a worker sends it to its controller."""

    planned: list[str]
    """Node ids of the tests with budgets that were to run."""
    collected: list[str]
    """All tests with budgets, deselected ones included."""
    unmatched: list[str]
    """Patterns of ``[tool.membudget] tests`` that match no test."""
    unmarked: list[str]
    """Tests that had a budget when they were collected, and none when they were to run."""
    cache_trouble: str
    not_cached: dict[str, str]
    uncollected: list[str]
    """As ``Remarks`` has them."""


def is_worker(config: pytest.Config) -> bool:
    """Whether the session of ``config`` is a worker of pytest-xdist."""
    return hasattr(config, "workerinput")


def is_first(config: pytest.Config) -> bool:
    """Whether this is the process that acts for all: the first worker, or a session without xdist."""
    return bool(getattr(config, "workerinput", {}).get("workerid", "gw0") == "gw0")


def start_of(config: pytest.Config) -> Invocation:
    """How the session of ``config`` was started; in a worker, that of its controller."""
    given = getattr(config, "workerinput", {}).get(_OURS)
    if given is not None:
        return Invocation(**given)
    params = config.invocation_params
    return Invocation([str(arg) for arg in params.args], str(params.dir), str(config.rootpath))


def send_start(node: Any, start: Invocation) -> None:
    """Send ``start`` to the worker ``node``."""
    node.workerinput[_OURS] = asdict(start)


def send_end(config: pytest.Config, end: End) -> None:
    """Send ``end`` to the controller."""
    config.workeroutput[_OURS] = asdict(end)  # type: ignore[attr-defined]


def end_of(node: Any) -> End | None:
    """What the worker ``node`` sent at its end; None if it crashed."""
    sent = (getattr(node, "workeroutput", None) or {}).get(_OURS)
    return End(**sent) if sent is not None else None
