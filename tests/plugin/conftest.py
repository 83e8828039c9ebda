"""A session over the files of a test's module, once for all its tests."""

import pytest


@pytest.fixture(scope="module")
def run(request, session_of):
    """Over ``FILES``, with ``--membudget`` unless ``ARGS`` say otherwise, and with the variables ``ENV``."""
    args = getattr(request.module, "ARGS", ("--membudget",))
    return session_of(request.module.FILES, *args, env=getattr(request.module, "ENV", None))
