"""``--membudget-compare=python:PATH``: what another release of a library does to the memory of a test."""

import json
import os
import subprocess
import sys
import sysconfig
import textwrap
import venv
from pathlib import Path

import pytest

import pytest_membudget

SOURCES = Path(pytest_membudget.__file__).parent.parent
HOLD = """\
import torch


def hold(size):
    kept = torch.empty(size, dtype=torch.uint8, device="cuda")
    return kept
"""
#: Two blocks of 64 MiB in place of one, the second at line 10.
TWICE = f"""{HOLD}, copied(size)


def copied(size):
    return torch.zeros(size, dtype=torch.uint8, device="cuda")
""".replace("\n, ", ", ")
FILES = {
    "pyproject.toml": "",
    "src/model.py": "import library\n\ndef step():\n    return library.hold(64 * 2**20)\n",
    "conftest.py": "import sys, pathlib\nsys.path.append(str(pathlib.Path(__file__).parent / 'src'))\n",
    "test_step.py": """
        import pytest

        @pytest.mark.mem_budget(gib=1, max_growth="1%")
        def test_step():
            import model

            kept = model.step()
        """,
}


def environment(folder, version, source, *paths):
    """A virtual environment with ``library``, over this one's distributions; its interpreter."""
    venv.create(folder, symlinks=True)
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "library").mkdir()
    (packages / "library" / "__init__.py").write_text(source)
    (packages / f"library-{version}.dist-info").mkdir()
    metadata = f"Metadata-Version: 2.1\nName: library\nVersion: {version}\n"
    (packages / f"library-{version}.dist-info" / "METADATA").write_text(metadata)
    below = [sysconfig.get_paths()["purelib"], *paths]
    (packages / "below.pth").write_text("".join(f"{path}\n" for path in below))
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """A session of library 1.1 that compares with 1.0, where this package is not on the import path."""
    folder = tmp_path_factory.mktemp("environments")
    its_own = 'import sys\n\nassert sys.prefix.endswith("before"), sys.prefix\n'
    before = environment(folder / "before", "1.0", HOLD + its_own)
    after = environment(folder / "after", "1.1", TWICE, SOURCES)
    for name, text in FILES.items():
        path = folder / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    outer = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHON"))}
    plugin = ["-p", "no:membudget", "-p", "pytest_membudget.plugin", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [str(after), "-m", "pytest", *plugin, "--membudget", "--membudget-report=report",
         f"--membudget-compare=python:{os.path.relpath(before, folder / 'project')}"],
        cwd=folder / "project",
        env={**outer, "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "1000"},
        capture_output=True,
        text=True,
        timeout=600,
    )  # fmt: skip
    return done, json.loads((folder / "project" / "report" / "report.json").read_text())


def test_growth_is_of_the_release_and_at_the_librarys_line(session):
    done, report = session
    [row] = report["tests"]

    assert row["comparison"]["status"] == "grown", done.stdout + done.stderr
    assert row["comparison"]["bytes"] - row["comparison"]["base"]["bytes"] == 64 * 2**20
    [finding] = row["comparison"]["findings"]
    assert finding["location"] == "library/__init__.py:10"
    assert "grown with library 1.0 -> 1.1: takes 64.0 MiB (100.0%) more than at the base" in done.stdout
    assert "installed since the base: library 1.0 -> 1.1" in done.stdout
    assert done.returncode == pytest.ExitCode.TESTS_FAILED


def test_header_and_report_name_the_environment(session):
    done, report = session
    version = ".".join(map(str, sys.version_info[:3]))

    assert f"; compares with python:../before/bin/python (Python {version})" in done.stdout
    assert (report["comparison"]["base"], report["comparison"]["commit"]) == (
        "python:../before/bin/python",
        None,
    )
