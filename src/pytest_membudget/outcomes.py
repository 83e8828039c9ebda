"""The exceptions that end a marked test."""

import pytest


class BudgetExceeded(pytest.fail.Exception):  # type: ignore[name-defined, misc] # set by a decorator
    """The test takes more memory than its budget allows."""


class BudgetUnchecked(pytest.fail.Exception):  # type: ignore[name-defined, misc] # as above
    """The test's budget could not be checked; never a pass."""


class BodyNotRun(Exception):  # noqa: N818 - it is no error
    """Ends setup and call of a marked test without running anything: it passes on its estimate.

    Users never see it: the phase is reported as passed.
    """
