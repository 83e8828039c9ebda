"""What a summary says of a comparison as a whole, after its table."""

from __future__ import annotations

from ..results.comparison import ComparedSession


def compared_notices(comparison: ComparedSession | None) -> list[str]:
    """Lines on removed tests and unused waivers."""
    if comparison is None:
        return []
    removed = [f"removed since the base: {nodeid}" for nodeid in comparison.removed]
    unused = [f"unused waiver: {waiver.test}: {waiver.reason}" for waiver in comparison.unused_waivers]
    return [*removed, *unused]
