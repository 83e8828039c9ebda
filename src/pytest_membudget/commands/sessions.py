"""Runs a pytest session with ``--membudget`` in a process, and reads its report."""

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ..comparison.base.exchange import complaint_in
from ..errors import UsageMistake
from ..external_commands import run_command
from ..names import FIGURES
from ..reporting.document import Document, read_document

_PYTEST: Final = (sys.executable, "-m", "pytest", "--membudget")


def report_of_session(arguments: Sequence[str], variables: Mapping[str, str] | None = None) -> Document:
    """The report of ``pytest --membudget`` with ``arguments``, in this folder and environment.

    ``variables`` are added to the environment. The exit status does not matter: tests may fail. Raises
    ``UsageMistake`` with pytest's message if no test was estimated.
    """
    with tempfile.TemporaryDirectory(prefix="membudget-") as folder:
        command = [*_PYTEST, *arguments, f"--membudget-report={folder}"]
        done = run_command(command, environment={**os.environ, FIGURES: "1", **(variables or {})})
        path = Path(folder, "report.json")
        document = read_document(path) if path.is_file() else Document(())
    if not document.tests:
        shown = " ".join(["pytest", "--membudget", *arguments])
        raise UsageMistake(f"`{shown}` estimated no test: {complaint_in(done.stderr + done.stdout)}")
    return document
