"""The sessions that `membudget fit` and `membudget bisect` read."""

import pytest

from pytest_membudget.commands.sessions import report_of_session
from pytest_membudget.errors import UsageMistake

CONFTEST = """
from pathlib import Path

def pytest_configure(config):
    Path("advice").write_text(config.getoption("--membudget-advice"))
"""


@pytest.mark.parametrize(("given", "expected"), [([], "off"), (["--membudget-advice=on"], "on")])
def test_no_advice_is_run_unless_the_user_asks_for_it(tmp_path, monkeypatch, given, expected):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    monkeypatch.chdir(tmp_path)

    with pytest.raises(UsageMistake, match="estimated no test"):
        report_of_session(given)

    assert (tmp_path / "advice").read_text() == expected
