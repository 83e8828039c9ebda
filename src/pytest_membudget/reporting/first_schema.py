"""A report.json of version 1 as version 2 has it: states, and the causes of caveats, had other names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ..results.comparison import GROWN, NEW, NOT_COMPARABLE, UNCHANGED

VERSION: Final = 1
#: Statuses that said whether a test fails, and not whether it takes more; what they are in ``allowed``.
_VERDICTS: Final = {"new-over": None, "still-over": True, "waived": True, "expired-waiver": False}
_LOCK_STATES: Final = {"kept": UNCHANGED, "recorded": NEW, "not-comparable": NOT_COMPARABLE}


def upgrade(document: dict[str, Any]) -> None:
    """Change ``document`` to version 2, in place; what is no report stays as it is, and is refused later."""
    document["schema_version"] = VERSION + 1
    for row in _objects(document.get("tests")):
        for comparison in _objects([row.get("comparison")]):
            _upgrade_comparison(comparison)
        for lock in _objects([row.get("lock")]):
            lock["recorded"] = lock.get("status") == "recorded"
            lock["status"] = _renamed(_LOCK_STATES, lock.get("status"))
        for name in ("estimates", "measurements"):
            for figure in _objects(row.get(name)):
                for report in _objects([figure, figure.get("host")]):
                    for caveat in _objects(report.get("caveats")):
                        caveat["cause"] = caveat.get("kind")


def _upgrade_comparison(comparison: dict[str, Any]) -> None:
    status, growth_bytes = comparison.get("status"), comparison.get("growth_bytes")
    if status == GROWN:
        comparison["allowed"] = False
    elif status == "not-comparable":
        comparison["status"] = NOT_COMPARABLE
    elif status == UNCHANGED or (isinstance(status, str) and status in _VERDICTS):
        comparison["allowed"] = _VERDICTS.get(status)
        has_grown = isinstance(growth_bytes, int) and growth_bytes > 0
        is_new = status == "new-over" and comparison.get("base_bytes") is None
        comparison["status"] = NEW if is_new else GROWN if has_grown else UNCHANGED


def _renamed(names: dict[str, str], name: object) -> object:
    return names.get(name, name) if isinstance(name, str) else name


def _objects(values: object) -> Iterator[dict[str, Any]]:
    yield from (one for one in (values if isinstance(values, list) else ()) if isinstance(one, dict))
