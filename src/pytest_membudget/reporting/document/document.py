"""Document: a whole report.json as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from ...json_object import JsonObject
from ...results.comparison import ComparedSession
from ...results.test_result import TestResult

#: The first and only version so far.
SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Tool(JsonObject):
    """This plugin."""

    version: str | None = None
    testing: bool = False
    """Estimates were given by ``pytest_membudget.testing``."""


@dataclass(frozen=True, slots=True)
class Torch(JsonObject):
    """The torch that figures were made with."""

    version: str | None = None
    cuda: str | None = None
    alloc_conf: str | None = None
    """The allocator's settings in the environment; empty for none, None if the report does not have them."""


@dataclass(frozen=True, slots=True)
class Git(JsonObject):
    """The repository of the tests."""

    head: str | None = None
    base: str | None = None
    """The commit that is compared with."""
    dirty: bool | None = None
    """Whether tracked files differ from the commit."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Paths in the repository of the files that are as in the commit, by their paths in the report."""


@dataclass(frozen=True, slots=True)
class Document(JsonObject):
    """A whole report."""

    required: ClassVar[tuple[str, ...]] = ("schema_version",)

    schema_version: int = field(default=SCHEMA_VERSION, kw_only=True)
    strict: bool = field(default=False, kw_only=True)
    """What was not checked is a failure."""
    tool: Tool = field(default=Tool(), kw_only=True)
    torch: Torch = field(default=Torch(), kw_only=True)
    git: Git = field(default=Git(), kw_only=True)
    distributions: Mapping[str, str] | None = field(default=None, kw_only=True)
    """Versions of installed distributions, by name; None if the report does not have them."""
    tests: tuple[TestResult, ...]
    comparison: ComparedSession | None = None
    """With the base, of the whole session."""
