"""What has become of a test since its base, in a word."""

from __future__ import annotations

from typing import Final

NEW_OVER: Final = "new-over"
STILL_OVER: Final = "still-over"
GROWN: Final = "grown"
SHRUNK: Final = "shrunk"
NEW: Final = "new"
REMOVED: Final = "removed"
UNCHANGED: Final = "unchanged"
NOT_COMPARABLE: Final = "not-comparable"
WAIVED: Final = "waived"
EXPIRED: Final = "expired-waiver"

STATUSES: Final = (
    NEW_OVER,
    STILL_OVER,
    GROWN,
    SHRUNK,
    NEW,
    REMOVED,
    UNCHANGED,
    NOT_COMPARABLE,
    WAIVED,
    EXPIRED,
)
