"""A plugin for the base's processes: tells of modules that were imported from the head's checkout instead.

The session that runs the base has it on its command line, and so has each worker that estimates for it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from .places import foreign_modules

#: The variable that says where the head's checkout is, and in which folder to tell. A worker has the
#: command line of its session and its environment, and nothing else.
LOOKOUT = "MEMBUDGET_LOOKOUT"


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """The test files have been imported."""
    tell_foreign()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """A test's body has imported what it needs."""
    tell_foreign()


def tell_foreign() -> None:
    """Write what of this process's modules is the head's, if anything is."""
    written = os.environ.get(LOOKOUT)
    if written is None:
        return
    asked = json.loads(written)
    found = foreign_modules(sys.modules, asked["head"], asked["folder"])
    if found:
        path = Path(asked["folder"]) / f"foreign-{os.getpid()}.json"
        path.write_text(json.dumps(found), encoding="utf-8")


def told_foreign(folder: Path) -> dict[str, str]:
    """What the base's processes have written to ``folder``, all together."""
    found: dict[str, str] = {}
    for path in sorted(folder.glob("foreign-*.json")):
        found.update(json.loads(path.read_text(encoding="utf-8")))
    return found
