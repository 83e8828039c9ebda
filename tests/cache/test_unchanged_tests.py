"""A test is estimated again if anything that its estimate depends on has changed, and only then."""

import os
import zlib
from pathlib import Path

import pytest
import yaml  # noqa: F401 - here, as its C code cannot be imported again by a second session of a test

from pytest_membudget.cache import session_facts as facts
from pytest_membudget.cache.states import States
from pytest_membudget.devices.choice import find_stand_in
from pytest_membudget.errors import WorkerFailure
from pytest_membudget.worker.client import template, worker

MIB = 2**20
OUTER = {name: os.environ.get(name) for name in ("HOME", "USERPROFILE", "PY_COLORS")}  # pytester sets them
PYPROJECT = """[tool.pytest.ini_options]
pythonpath = ["src", "installed"]
"""
BODY = """import os
from pathlib import Path

import pytest
from sizes import MIB

try:
    import quick_kernels
except ImportError:
    quick_kernels = None

DATA = Path(__file__).parents[1] / "data"


@pytest.mark.mem_budget(gib=1)
def test_size():
    import torch
    from later import EXTRA

    mib = MIB + EXTRA + int((DATA / "size.txt").read_text()) + len(list((DATA / "parts").iterdir()))
    mib += int(os.environ.get("SIZE_MIB", "0")) + 100 * (DATA / "large").exists()
    held = torch.empty(mib * 2**20, dtype=torch.uint8, device="cuda")
"""
FILES = {
    "pyproject.toml": PYPROJECT,
    "conftest.py": "WHERE = 'at the root'\n",
    "README.md": "What this is.\n",
    "src/sizes.py": "MIB = 1\n",
    "src/later.py": "EXTRA = 0\n",
    "src/unused.py": "NOTHING = 0\n",
    "installed/fake-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: fake\nVersion: 1.0\n",
    "data/size.txt": "1\n",
    "data/parts/a.txt": "",
    "tests/test_sizes.py": BODY,
}
OPTIONS = ("--membudget", "-p", "pytest_membudget.plugin", "-p", "no:cacheprovider")
#: What the test takes as it is written: 1 of the module, 1 of the file, 1 for the one entry of the folder.
SIZE_BYTES = 3 * MIB


class Rows:
    """Stands at the end of a session and keeps its rows."""

    def pytest_sessionfinish(self, session):
        gate = session.config.pluginmanager.get_plugin("membudget-gate")
        self.rows = {row.nodeid.split("::")[-1]: row for row in gate.session.results.in_order()}


class Project:
    """One checkout, and sessions in this process that share what was kept."""

    def __init__(self, pytester, monkeypatch):
        self.path = pytester.path
        self._pytester = pytester
        self._monkeypatch = monkeypatch

    def write(self, name, text):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self, *args):
        """The rows of a session."""
        found = Rows()
        self._pytester.inline_run(*OPTIONS, *args, plugins=[found])
        return found.rows

    def miss(self, *args):
        """The last change since an entry was kept, or that there is none; None if the test need not run.

        No worker can start.
        """
        changes = []
        with self._monkeypatch.context() as patch:
            patch.setattr(template.Template, "begin", lambda own: None)
            patch.setattr(worker, "start_process", refuse)
            change = States.first_change
            patch.setattr(States, "first_change", lambda *args: changes.append(change(*args)) or changes[-1])
            row = self.run(*args)["test_size"]
        if row.cached:
            assert row.verdict == "within"
            assert row.estimates[0].peak["allocated"] == SIZE_BYTES
            return None
        assert "there is no worker" in row.reason
        return f"changed: {changes[-1]}" if changes else "no entry"


def refuse(*_, **__):
    raise WorkerFailure("there is no worker")


@pytest.fixture(scope="module")
def kept(tmp_path_factory, cache_in):
    """The folder of what is kept; no estimate until the first project has been estimated."""
    return Path(cache_in(tmp_path_factory.mktemp("kept"))["MEMBUDGET_CACHE_DIR"])


@pytest.fixture
def project(request, pytester, monkeypatch, kept, warm_processes):
    """A checkout of the module's files, whose test was estimated in another one with the same content."""
    find_stand_in()  # before there is another cache, where it would be built again
    monkeypatch.setenv("MEMBUDGET_CACHE_DIR", str(kept))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # others' plugins are half of the time
    # other sessions may be at work on this package's source while these tests run
    monkeypatch.setattr(facts, "PACKAGE", "/this plugin's source")
    monkeypatch.delenv("PYTEST_DEBUG_TEMPROOT")  # pytester's, another in each test
    for name, value in OUTER.items():  # as in the process that workers are copies of
        monkeypatch.setenv(name, value) if value is not None else monkeypatch.delenv(name)
    project = Project(pytester, monkeypatch)
    for name, text in request.module.FILES.items():
        project.write(name, text)
    if not list(kept.glob("estimates")):
        row = project.run()["test_size"]
        assert row.estimates[0].peak["allocated"] == SIZE_BYTES, row.reason
        assert not row.cached
    return project


def test_an_unchanged_test_needs_no_worker(project):
    assert project.miss() is None


def test_what_the_test_does_not_depend_on_changes_nothing(project, monkeypatch):
    project.write("README.md", "What this is not.\n")
    project.write("src/unused.py", "NOTHING = 1\n")
    project.write("src/new.py", "NOTHING = 1\n")
    project.write("tests/test_others.py", "def test_nothing():\n    pass\n")
    project.write("data/more.txt", "1")
    settings = "[tool.ruff]\nline-length = 100\n[tool.membudget]\ntimeout = 100\n"
    project.write("pyproject.toml", PYPROJECT + settings)
    monkeypatch.setenv("GITHUB_SHA", "1")

    assert project.miss("-v", "-k", "size", "--durations=3", "-rA", "--color=yes", "-x") is None


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("src/later.py", "EXTRA = 1\n", "changed: {root}/src/later.py"),
        ("data/parts/b.txt", "", "changed: {root}/data/parts"),
        ("data/large", "", "changed: {root}/data/large"),
        ("src/quick_kernels.py", "", "changed: {root}/src/quick_kernels"),
        ("src/later/__init__.py", "EXTRA = 5\n", "changed: {root}/src/later"),
        ("tests/conftest.py", "", "changed: {root}/tests/conftest.py"),
        (
            "installed/fake-1.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: fake\nVersion: 1.1\n",
            "no entry",
        ),
        ("pyproject.toml", PYPROJECT + "filterwarnings = ['error']\n", "no entry"),
        ("pyproject.toml", PYPROJECT + "[tool.membudget]\ngpu = 'A100-40GB'\n", "no entry"),
    ],
    ids=lambda value: value.strip().split("\n")[-1][:30],
)
def test_a_file_a_setting_or_an_installation_that_matters_is_seen(project, name, text, why):
    project.write(name, text)

    assert project.miss() == why


def test_a_module_that_is_gone_is_seen(project):
    (project.path / "src" / "later.py").unlink()

    assert project.miss() == "changed: {root}/src/later"


def test_an_option_that_may_matter_is_seen(project):
    assert project.miss("-o", "xfail_strict=true") == "no entry"


def test_off_and_refresh_find_nothing(project):
    assert project.miss("--membudget-cache=off") == "no entry"
    assert project.miss("--membudget-cache=refresh") == "no entry"


def test_a_variable_that_may_matter_is_seen(project, monkeypatch):
    monkeypatch.setenv("SIZE_MIB", "0")

    assert project.miss() == "no entry"


def test_damaged_entries_are_estimated_anew(project, kept, tmp_path, monkeypatch):
    copy = tmp_path / "copy"
    for path in Path(kept).rglob("*.estimate"):
        data = zlib.decompress(path.read_bytes())
        place = copy / path.relative_to(kept)
        place.parent.mkdir(parents=True)
        other = zlib.compress(data.replace(b"3145728", b"3145729"))
        place.write_bytes(other[:-4] + path.read_bytes()[-4:])  # with the checksum that it had
    monkeypatch.setenv("MEMBUDGET_CACHE_DIR", str(copy))

    assert list(copy.rglob("*.estimate"))
    assert project.miss() == "no entry"
