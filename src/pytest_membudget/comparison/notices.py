"""What a summary says of a comparison as a whole, after its table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def compared_notices(comparison: Mapping[str, Any] | None) -> list[str]:
    """Lines on removed tests and unused waivers."""
    if comparison is None:
        return []
    removed = [f"removed since the base: {nodeid}" for nodeid in comparison["removed"]]
    unused = [f"unused waiver: {entry['test']}: {entry['reason']}" for entry in comparison["unused_waivers"]]
    return [*removed, *unused]
