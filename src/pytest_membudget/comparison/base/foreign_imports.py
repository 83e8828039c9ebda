"""A plugin for the processes that run the base: reports modules imported from the head's checkout.

The session that runs the base has it on its command line, and so has each of its workers.
"""

import json
import os
import sys
from pathlib import Path

import pytest

from ..places import foreign_modules

#: The environment variable with the head's checkout and the folder of the reports: a worker gets its
#: session's command line and environment, and nothing else.
VARIABLE = "MEMBUDGET_FOREIGN_IMPORTS"


@pytest.hookimpl(trylast=True)
def write_imports() -> None:
    """Write the modules of this process that are from the head's checkout, if any."""
    written = os.environ.get(VARIABLE)
    if written is None:
        return
    watched = json.loads(written)
    found = foreign_modules(sys.modules, watched["head"], watched["folder"])
    if found:
        path = Path(watched["folder"]) / f"foreign-{os.getpid()}.json"
        path.write_text(json.dumps(found), encoding="utf-8")


#: After the test files were imported, and after a test's body has run, which may import more.
pytest_collection_finish = pytest_runtest_teardown = write_imports


def foreign_text(folder: Path) -> str:
    """Which module its processes have reported to ``folder``, for a message; empty if none."""
    for path in sorted(folder.glob("foreign-*.json")):
        name, file = next(iter(json.loads(path.read_text(encoding="utf-8")).items()))
        return (
            f"the base's run imported {name} from the head's checkout ({file}), so its figures are not the "
            "base's own"
        )
    return ""
