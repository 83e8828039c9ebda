"""A plugin for the processes that run the base: reports modules imported from the head's checkout.

The session that runs the base has it on its command line, and so has each of its workers.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from ..places import foreign_modules

#: The environment variable with the head's checkout, and the folder to report to. A worker has its session's
#: command line and environment, and nothing else.
VARIABLE = "MEMBUDGET_FOREIGN_IMPORTS"


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """The test files have been imported."""
    write_imports()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """A test's body has imported what it needs."""
    write_imports()


def write_imports() -> None:
    """Write which of this process's modules are the head's, if any are."""
    written = os.environ.get(VARIABLE)
    if written is None:
        return
    watched = json.loads(written)
    found = foreign_modules(sys.modules, watched["head"], watched["folder"])
    if found:
        path = Path(watched["folder"]) / f"foreign-{os.getpid()}.json"
        path.write_text(json.dumps(found), encoding="utf-8")


def found_imports(folder: Path) -> dict[str, str]:
    """What the base's processes have written to ``folder``, together: files by the names of modules."""
    found: dict[str, str] = {}
    for path in sorted(folder.glob("foreign-*.json")):
        found.update(json.loads(path.read_text(encoding="utf-8")))
    return found
