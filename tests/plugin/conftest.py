"""A session over the files of a test's module, once for all its tests."""

import pytest


@pytest.fixture(scope="module")
def run(request, session_of):
    """Over ``FILES``, with ``--membudget`` unless ``ARGS`` say otherwise."""
    return session_of(request.module.FILES, *getattr(request.module, "ARGS", ("--membudget",)))
