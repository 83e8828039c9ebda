"""What the head's session and the base's process exchange, in files: the tests to run, and their results.

A base that is a stored report is the same value.
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import IO, Final

from ...atomic_files import write_json
from ...json_object import JsonObject, T
from ...names import alloc_conf_of
from ...reporting.document import Document
from ...reporting.files.json_file import installed_distributions, torch_of
from ...results.comparison import VersionChange, Versions
from ...results.test_result import TestResult

_OWN: Final = "pytest-membudget"
_OUTPUT: Final = "output"
#: Bytes of the output that ``complaint`` reads.
_OUTPUT_BYTES = 100_000
#: How pytest begins the lines on why a session cannot start.
_COMPLAINTS = ("ERROR: ", "ERROR ", "INTERNALERROR> ", "ImportError while loading conftest", "E  ")
#: Seconds between two looks for the result.
_INTERVAL = 0.05


@dataclass(frozen=True, slots=True)
class Head(JsonObject):
    """The tests of the head's session."""

    selected: Sequence[str]
    """Node ids of the tests with budgets that run."""
    collected: Sequence[str]
    """All tests with budgets that were collected."""
    roots: Sequence[str]
    """Folders of the checkout that its modules were imported from."""
    files: Sequence[str] | None = None
    """The files and folders to collect; None for those of the settings."""


@dataclass(frozen=True, slots=True)
class Order(JsonObject):
    """What the base's process is sent."""

    args: Sequence[str]
    dir: str
    head: Head
    folder: str
    """Of the exchange; it is removed with the worktree if the session is killed."""
    top: str
    """The checkout that the worktree is of."""


@dataclass(frozen=True, slots=True)
class Facts(JsonObject):
    """What figures were made with; None if the report does not say."""

    torch: str | None = None
    alloc_conf: str | None = None
    """The allocator's settings in the environment; empty for none."""
    distributions: Mapping[str, str] | None = None
    """The versions of installed distributions, by name."""
    is_environment: bool = False
    """Of another environment: another torch is a change as of any other distribution."""

    def version_changes(self, head: "Facts") -> Versions:
        """Distributions that ``head`` has in other versions, then those that only one of the two has.

        Empty if one of the two does not say.
        """
        ours, theirs = head.distributions, self.distributions
        if ours is None or theirs is None:
            return {}
        # in another environment this package runs too, whichever version is installed there
        same = {_OWN} if self.is_environment else set()
        names = [name for name in {*ours, *theirs} - same if ours.get(name) != theirs.get(name)]
        names.sort(key=lambda name: (name not in ours or name not in theirs, name))
        return {name: VersionChange(theirs.get(name), ours.get(name)) for name in names}


@dataclass(frozen=True, slots=True)
class Base(JsonObject):
    """The base's results by node id, and what could not be collected."""

    results: Mapping[str, TestResult] = field(default_factory=dict)
    facts: Facts = Facts()
    trouble: str = ""
    """Why nothing can be compared with it, in one line; else empty."""
    errors: Mapping[str, str] = field(default_factory=dict)
    """Why files or folders of its tests could not be collected, by node id."""
    removed: tuple[str, ...] = ()
    """Node ids of the base's tests with budgets that the head does not have."""

    def trouble_of(self, nodeid: str) -> str:
        """Why it is not known whether the base has the test ``nodeid``; empty if it is."""
        if self.trouble:
            return self.trouble
        for path, reason in self.errors.items():
            if nodeid == path or nodeid.startswith((f"{path}::", f"{path}/")):
                return f"the base's {path} could not be collected: {reason}"
        return ""


def base_without_figures(why: str) -> Base:
    """A base that could not be run."""
    return Base(trouble=f"the base could not be estimated: {why}")


def base_of_document(document: Document) -> Base:
    """The base of a stored report."""
    return Base(
        results={result.nodeid: result for result in document.tests},
        facts=Facts(document.torch, document.alloc_conf, document.distributions),
    )


def own_facts() -> Facts:
    """What the figures of this session are made with."""
    return Facts(torch_of(os.environ), alloc_conf_of(os.environ), installed_distributions())


@dataclass(frozen=True, slots=True)
class Exchange:
    """Files in ``folder``, each written atomically."""

    folder: Path

    def write(self, value: Head | Base) -> None:
        """Write what the head's session runs, every xdist worker the same; or the base's results."""
        write_json(self._path(type(value)), value.to_json())

    def read(self, kind: type[T]) -> T | None:
        """The ``Head`` or ``Base`` that was written; None if there is none yet."""
        with suppress(FileNotFoundError):
            return kind.from_json(json.loads(self._path(kind).read_text(encoding="utf-8")))
        return None

    def _path(self, kind: type[JsonObject]) -> Path:
        return self.folder / f"{kind.__name__}.json"

    def output(self) -> IO[bytes]:
        """A new file for the output of the base's run."""
        return (self.folder / _OUTPUT).open("wb")

    def complaint(self) -> str:
        """Why there is no result: the output's first line with an error of pytest, else its last line."""
        text = b""
        with suppress(OSError), (self.folder / _OUTPUT).open("rb") as file:
            text = file.read(_OUTPUT_BYTES)
        return complaint_in(text.decode(errors="replace"))

    def wait(self, seconds: float) -> Base | None:
        """The base; None if it takes more than ``seconds``, or the folder is not there: the session ended."""
        deadline = time.monotonic() + seconds
        while (base := self.read(Base)) is None and self.folder.is_dir() and time.monotonic() < deadline:
            time.sleep(_INTERVAL)
        return base


def complaint_in(output: str) -> str:
    """The first line of a session's ``output`` with an error of pytest, unfolded; else its last line."""
    lines = [line for line in output.splitlines() if line.strip()] or ["its run ended without output"]
    first = next((n for n, line in enumerate(lines) if line.strip().startswith(_COMPLAINTS)), len(lines) - 1)
    rest = takewhile(lambda line: line.startswith(" "), lines[first + 1 :])
    return " ".join(line.strip() for line in (lines[first], *rest))
