"""What a summary says of a comparison as a whole, after its table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def compared_notices(comparison: Mapping[str, Any] | None) -> list[tuple[str, bool]]:
    """Lines on removed tests and unused waivers; True would make one a complaint, and none of them is."""
    if comparison is None:
        return []
    removed = [f"removed since the base: {nodeid}" for nodeid in comparison["removed"]]
    unused = [f"unused waiver: {entry['test']}: {entry['reason']}" for entry in comparison["unused_waivers"]]
    return [(text, False) for text in (*removed, *unused)]
