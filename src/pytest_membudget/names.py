"""The names by which pytest knows this package: its marker, and the plugins that it registers."""

from __future__ import annotations

from typing import Final

MARKER: Final = "mem_budget"
#: The plugin of a session with ``--membudget``, of a session without, of a worker's session, and of one that
#: estimates the base of another.
GATE: Final = "membudget-gate"
SKIP: Final = "membudget-skip"
WORKER: Final = "membudget-worker"
BASE: Final = "membudget-base"
