"""How the head's session was started, which is known before anything else is imported."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Invocation:
    """How the head's session was started; pytest-xdist's controller sends it to its workers."""

    args: list[str]
    dir: str
    """The folder in which pytest was started."""
    rootdir: str
    exchange: str | None = None
    """The folder in which the base's results will be; None without a base."""
    template: str = ""
    """Where workers of pytest-xdist get workers; empty where each starts its own."""
