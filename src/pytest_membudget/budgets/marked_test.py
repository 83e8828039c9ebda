"""MarkedTest: a test with a budget, as its mark declares it."""

from __future__ import annotations

from dataclasses import dataclass

from .budget import Budget


@dataclass(frozen=True, slots=True)
class MarkedTest:
    """A test with a budget: what identifies it, the place of its mark, and the mark's arguments."""

    nodeid: str
    key: str
    """Identifies the test in every process of the session: see ``node_ids.key_of``."""
    path: str
    """The file that the worker collects, absolute."""
    file: str
    """Of the mark, relative to pytest's root folder."""
    line: int
    budget: Budget | None
    """None where the mark has a mistake."""
    mistake: str = ""
    """What is wrong with the mark, and what to write instead."""
    has_body: bool = True
    """False for a scenario, which formulas estimate."""
