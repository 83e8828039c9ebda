"""``membudget report``: what it needs, where it writes, what it says."""

import json
import os
from pathlib import Path

import pytest

import pytest_membudget
from tests.programs import printed

SOURCES = Path(pytest_membudget.__file__).parent.parent


def python(folder, *arguments, **variables):
    environment = {**os.environ, "PYTHONPATH": str(SOURCES), **variables}
    return printed(*arguments, cwd=folder, env=environment, encoding="utf-8")


@pytest.fixture
def written(raw, over, tmp_path):
    """A folder with a report.json of one test that is over."""
    (tmp_path / "report.json").write_text(json.dumps(raw(over())))
    return tmp_path


@pytest.mark.parametrize(
    "output_format",
    ["terminal", "markdown", "github", "gitlab"],
)
def test_it_imports_neither_torch_nor_pytest_nor_anything_installed(written, output_format):
    code = (
        "import sys; before = set(sys.modules)\n"
        "from pytest_membudget.commands.main import main\n"
        f"assert main(['report', 'report.json', '--format={output_format}', '--output=out']) == 0\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - set(sys.stdlib_module_names)))\n"
    )
    assert python(written, "-c", code).strip() == "['pytest_membudget']"


def test_the_page_imports_neither_torch_nor_pytest(written):
    for name in ("plotly", "jinja2"):
        pytest.importorskip(name, reason="the extra html is not installed")
    code = (
        "import sys\nfrom pytest_membudget.commands.main import main\n"
        "assert main(['report', 'report.json', '--format=html', '--output=out']) == 0\n"
        "print({'torch', 'pytest', 'numpy', 'pandas'} & set(sys.modules))\n"
    )
    assert python(written, "-c", code).strip() == "set()"


def test_it_writes_to_a_file_in_a_new_folder(written):
    command = ("-m", "pytest_membudget", "report", "report.json", "--format=gitlab", "--output=a/b.json")
    assert python(written, *command) == ""
    assert (written / "a/b.json").read_text().startswith("[")


def test_what_cannot_be_written_is_reported(command, raw, row, tmp_path):
    (tmp_path / "file").touch()
    status, _, err = command(raw(row()), "--format=gitlab", f"--output={tmp_path}/file/out.json")
    assert status == 2
    assert "cannot be written: " in err


def test_output_is_utf8_whatever_the_locale(raw, row, tmp_path):
    (tmp_path / "report.json").write_text(json.dumps(raw(row("größe"))))
    command = ("-m", "pytest_membudget", "report", "report.json", "--format=markdown")
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    assert "größe" in python(tmp_path, *command, **locale)


def test_the_status_is_not_the_gate(command, raw, over):
    assert command(raw(over()), "--format=markdown")[0] == 0


def test_what_is_fine_is_skipped_where_that_is_asked_for(command, raw, row, over):
    assert command(raw(row()), "--format=markdown", "--skip-fine") == (0, "", "")
    assert command(raw(over()), "--format=markdown", "--skip-fine")[1]


def test_options_reach_the_format(command, raw, over):
    _, out, _ = command(
        raw(*(over(f"t::{n}") for n in range(99))), "--format=markdown", "--marker=a.b-1", "--limit=3000"
    )
    assert out.startswith("<!-- membudget:a.b-1 -->")
    assert len(out.encode()) <= 3000
    _, out, _ = command(raw(over()), "--format=github", "--prefix=packages/a")
    assert "file=packages/a/tests" in out


def test_a_limit_too_small_for_the_verdict_is_refused(command, raw, over):
    status, out, err = command(raw(over()), "--format=markdown", "--limit=100")
    assert (status, out) == (2, "")
    assert "--limit=100" in err
