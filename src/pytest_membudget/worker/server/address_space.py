"""Room for what this package does in a test's process after the body, whatever the body has left itself."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_soft_limit() -> Iterator[None]:
    """Meanwhile the process may take as much address space as its hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
