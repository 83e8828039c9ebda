"""What pytest-xdist's controller sends its workers when they start, and they send it when they end."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import pytest

#: The key of ours in a worker's input and output.
_OURS = "membudget"


@dataclass(frozen=True, slots=True)
class Start:
    """How the session was started; a worker knows it from its controller alone."""

    args: list[str]
    """pytest's command line."""
    dir: str
    """The folder that it was given in."""
    base: str | None = None
    """The folder of what is known of the base of a comparison."""


@dataclass(frozen=True, slots=True)
class End:
    """What a worker knows at its end, and its controller needs."""

    planned: list[str]
    """The tests with budgets that were to run."""
    cache_trouble: str
    """Why estimates could not be kept; empty if they could."""
    not_cached: dict[str, str]
    """Why single estimates cannot be cached, by test."""
    uncollected: list[str]
    """Tests with budgets that exist where CUDA is, and not in this session."""


def is_worker(config: pytest.Config) -> bool:
    """Whether the session of ``config`` is a worker of pytest-xdist."""
    return hasattr(config, "workerinput")


def is_first(config: pytest.Config) -> bool:
    """Whether what is done once for all workers is done in the session of ``config``; also one alone."""
    return bool(getattr(config, "workerinput", {}).get("workerid", "gw0") == "gw0")


def start_of(config: pytest.Config) -> Start:
    """How the session of ``config`` was started, in a worker too."""
    given = getattr(config, "workerinput", {}).get(_OURS)
    if given is not None:
        return Start(**given)
    params = config.invocation_params
    return Start([str(arg) for arg in params.args], str(params.dir))


def send_start(node: Any, start: Start) -> None:
    """Let the worker ``node`` know ``start``."""
    node.workerinput[_OURS] = asdict(start)


def send_end(config: pytest.Config, end: End) -> None:
    """Let the controller know ``end``."""
    config.workeroutput[_OURS] = asdict(end)  # type: ignore[attr-defined]


def end_of(node: Any) -> End | None:
    """What the worker ``node`` has sent at its end; None if it has ended without that."""
    sent = (getattr(node, "workeroutput", None) or {}).get(_OURS)
    return End(**sent) if sent is not None else None
