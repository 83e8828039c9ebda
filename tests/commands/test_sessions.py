"""The sessions that `membudget fit` and `membudget bisect` read."""

import pytest

from pytest_membudget.commands.sessions import report_of_session
from pytest_membudget.errors import UsageMistake

CONFTEST = """
from pathlib import Path

def pytest_collection_finish(session):
    Path("advice").write_text(session.config.pluginmanager.getplugin("membudget-gate")._settings.advice)
"""


def test_no_advice_is_run(tmp_path, monkeypatch):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pyproject.toml").write_text("[tool.membudget]\nadvice = 'on'\n")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(UsageMistake, match="estimated no test"):
        report_of_session([])

    assert (tmp_path / "advice").read_text() == "off"
