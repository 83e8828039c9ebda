"""``os.environ`` in compiled code: dynamo traces what reads variables, and breaks off at a class of ours."""

from __future__ import annotations

import contextlib
import os


def plain_environment() -> contextlib.AbstractContextManager[None]:
    """A context in which ``os.environ`` is Python's own, though the cache of estimates watches its reads."""
    unwatched = getattr(os.environ, "unwatched", contextlib.nullcontext)
    context: contextlib.AbstractContextManager[None] = unwatched()
    return context
