"""What a summary says of a comparison as a whole, after its table."""

from __future__ import annotations

from ..results.comparison import ComparedSession, versions_text

#: Distributions in other versions than at the base that a summary names.
_VERSIONS = 20


def compared_notices(comparison: ComparedSession | None) -> list[str]:
    """Lines on versions that changed, removed tests and unused waivers."""
    if comparison is None:
        return []
    versions = versions_text(comparison.distributions, most=_VERSIONS)
    removed = [f"removed since the base: {nodeid}" for nodeid in comparison.removed]
    unused = [f"unused waiver: {waiver.test}: {waiver.reason}" for waiver in comparison.unused_waivers]
    return [*([f"installed since the base: {versions}"] if versions else []), *removed, *unused]
