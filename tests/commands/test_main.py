"""The command line of ``membudget``."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_membudget
from pytest_membudget.commands.main import main
from tests.programs import printed

SOURCES = Path(pytest_membudget.__file__).parent.parent


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "required: COMMAND"),
        ("repotr", "invalid choice: 'repotr'"),
        ("report", "required"),
        ("report x.json --format=junit", "invalid choice"),
        ("report x.json --format=markdown --limit=0", "not a whole number from 1 on"),
        ("report x.json --format=markdown --marker=a-->b", "not a name of letters"),
        ("report x.json --format=markdown --marker=a--b", "not a name of letters"),
        ("fit t.py::t --vary=b --gpu=H1000", "H1000"),
        ("fit t.py::t --vary=b", "--gpu"),
        ("fit t.py::t --vary=b --gpu=H100-80GB --max=0", "not a whole number from 1 on"),
        ("fit t.py::t --vary=b --gpu=H100-80GB --out=a.pdf", "ends neither in .csv nor in .html"),
    ],
)
def test_a_command_line_that_cannot_be_used_has_status_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments.split())
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_the_module_form_and_the_version():
    said = printed("-m", "pytest_membudget", "--version", env={"PYTHONPATH": str(SOURCES)})

    assert said == f"pytest-membudget {pytest_membudget.__version__}\n"


def test_a_reader_that_has_seen_enough_gets_no_traceback(tmp_path, raw, over):
    report = tmp_path / "report.json"
    report.write_text(json.dumps(raw(over())))
    show = [sys.executable, "-m", "pytest_membudget", "report", str(report)]
    process = subprocess.Popen(
        show, env={"PYTHONPATH": str(SOURCES)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.close()

    assert process.stderr.read() == ""
    assert process.wait(60) == 141
    process.stderr.close()
