"""Sessions of tests whose estimates are given: their files, from a table with a row a test."""

#: No other plugins, which take longer to import than a session takes.
ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
ASKED = ("-p", "pytest_membudget.plugin", "-p", "pytest_membudget.testing", "--membudget")
XDIST = ("-p", "xdist.plugin", "-n2")
CONFTEST = """\
import pytest

from pytest_membudget.caveats import HOW, LIBRARY, READ, SIZE_READ, Caveat
from pytest_membudget.testing import GivenEstimates, error, out_of_memory, raises, skips, takes

ESTIMATES = {{{}}}
MEASURED = {{{}}}


def pytest_membudget_estimates():
    return GivenEstimates(ESTIMATES, measured=MEASURED)
"""


def given_files(rows, measured=(), head="", body="..."):
    """``rows``: by name what the test takes, or nothing, and its marks; all as Python writes them.

    ``measured``: what some of them take on the card. ``head`` is what comes before the tests.
    """
    estimates = {name: takes for name, (takes, *_) in rows.items() if takes}
    tests = "".join(
        f"\n{''.join(f'@pytest.mark.{mark}' + chr(10) for mark in marks)}def {name}():\n    {body}\n"
        for name, (_, *marks) in rows.items()
    )
    return {
        "conftest.py": CONFTEST.format(_by_nodeid(estimates), _by_nodeid(dict(measured))),
        "test_budgets.py": f"import pytest\n{head}{tests}",
    }


def _by_nodeid(given):
    return ", ".join(f'"test_budgets.py::{name}": {takes}' for name, takes in given.items())
