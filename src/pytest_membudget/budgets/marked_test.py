"""MarkedTest: a test with a budget; its node id, its file and line, its budget."""

from dataclasses import dataclass

from ..json_object import JsonObject
from .budget import Budget


@dataclass(frozen=True, slots=True)
class Program(JsonObject):
    """A script that is run as it is, in place of a test's body."""

    words: tuple[str, ...]
    """Its path from ``cwd``, or ``-m`` and a module; then its arguments."""
    cwd: str
    """The folder that it runs in, absolute."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables by name, in order, above those of the session."""
    outputs: tuple[str, ...] = ()
    """Folders that it writes, absolute: what lies there is nothing that its estimate depends on."""


@dataclass(frozen=True, slots=True)
class MarkedTest:
    """A test with a budget. ``budget`` is None and ``mistake`` set if the mark cannot be used."""

    nodeid: str
    key: str
    """Identifies the test in every process of the session: see ``node_ids.key_of``."""
    path: str
    """The file that the worker collects, absolute."""
    file: str
    """The file of the mark, relative to pytest's root folder."""
    line: int
    budget: Budget | None
    """None if the mark has a mistake."""
    mistake: str = ""
    """What is wrong with the mark, and what to write instead."""
    has_body: bool = True
    """False for a scenario, which formulas estimate."""
    is_selected: bool = False
    """It has no mark: ``--membudget=all`` or ``[tool.membudget] tests`` selects it."""
    program: Program | None = None
    """What runs as its body, where that is a script."""
    names_gpus: bool = False
    """``gpus`` is written out: it runs as under a launcher, also on one GPU."""
    fixtures: frozenset[str] = frozenset()
    """The names of its fixtures and parameters."""

    @property
    def location(self) -> str:
        """``file:line`` of the mark."""
        return f"{self.file}:{self.line}"
