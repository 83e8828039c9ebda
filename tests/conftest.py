"""What tests of the plugin as a whole share: a pytest session in a process of its own, and what it said."""

import contextlib
import functools
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from pytest_membudget.devices.stand_in.building import CannotBuild, built_libraries
from pytest_membudget.devices.stand_in.environment import stand_in_environment
from pytest_membudget.devices.torch_build.build import environments_torch
from pytest_membudget.devices.torch_build.installed import FOLDER_VARIABLE, workers_torch
from pytest_membudget.errors import UsageMistake
from pytest_membudget.hardware.gpus import find_gpu
from tests.warm_python import SESSIONS, WITH_CARDS, WarmPython, workers_environment

pytest_plugins = ["pytester", "tests.report_fixtures", "tests.devices.on_cards"]

#: Variables of the session that runs these tests, which the sessions in them must not see. Without bytecode
#: each of them would compile the plugin, as no installed one does.
_OURS = (
    "PYTEST_", "COV_", "TOX_", "CUDA_VISIBLE_DEVICES", "PYTHONDONTWRITEBYTECODE",
    "TORCHINDUCTOR_CACHE_DIR",  # inductor sets it where it is imported
)  # fmt: skip


#: The gate is for machines without one; on others the session's own process must not see it. A process that
#: compiles kernels for inductor would import torch first, for the few of a test.
_FIXED = {"CUDA_VISIBLE_DEVICES": "", "TORCHINDUCTOR_COMPILE_THREADS": "1", "COLUMNS": "1000"}
#: Plugins that may be installed and have nothing to do in the sessions, but import much.
_NO_PLUGINS = ("-p", "no:hypothesispytest", "-p", "no:anyio")
_PYTHON = sys.executable
#: Copies of it are the sessions' processes, but for those that are asked to be cold.
_WARM = WarmPython(SESSIONS, WITH_CARDS)
_ROOT = Path(__file__).parents[1]
#: Beside every session's tests: importing torch is what a session of the plugin costs most.
HOLDING = """
    def hold(gib, device="cuda"):
        import torch  # where the test runs, and not where it is collected

        return torch.empty(int(gib * 2**30), dtype=torch.uint8, device=device)
    """


def pytest_configure(config):
    """Keep estimates of sessions that say nothing of it out of the user's own folder.

    What a shell starts in the background ignores Ctrl-C, and so would the sessions that tests interrupt.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        _WARM.join(config.workerinput["warm_python"])
    config.add_cleanup(_WARM.close)
    try:
        torch = workers_torch(os.environ)
    except UsageMistake as why:
        raise pytest.UsageError(f"the tests run on the stand-in: {why}") from None
    if torch != environments_torch():  # sessions in tests have caches of their own
        os.environ[FOLDER_VARIABLE] = str(torch.folder)
    if "MEMBUDGET_CACHE_DIR" not in os.environ:
        folder = os.environ["MEMBUDGET_CACHE_DIR"] = tempfile.mkdtemp(prefix="membudget-tests-estimates-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        config.add_cleanup(lambda: os.environ.pop("MEMBUDGET_CACHE_DIR", None))


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is imported and collected stays: nothing of it is searched for garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """pytest-xdist's processes share what takes long to start."""
    node.workerinput["warm_python"] = _WARM.share()


def _outer():
    return {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}


def _shared():
    """The variables of all sessions; the columns: where the table is whole and no line is folded."""
    return {**_outer(), **_FIXED}


def _own_cache(folder):
    """No session of another test finds estimates that were kept for this one."""
    return {"MEMBUDGET_CACHE_DIR": tempfile.mkdtemp(prefix=f"{folder.name}-estimates-", dir=folder.parent)}


def _fill_cache(cache):
    """What is built is built once, and what torch has passed it need not pass again: in ``cache`` too.

    A test that is about what torch has to pass makes the folder of it beforehand.
    """
    if not (cache / "self-checks").exists():
        _copy_self_checks(os.environ["MEMBUDGET_CACHE_DIR"], cache)
    with contextlib.suppress(OSError):  # there may be no such folder, on purpose
        (cache / "stand-in").mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in _folders_of_libraries():
            link = cache / "stand-in" / folder.name
            if not link.exists():
                link.symlink_to(folder)


@functools.cache
def _folders_of_libraries():
    """Those of the stand-in's that are kept in the cache; none where that is not possible."""
    try:
        preloaded = workers_environment(os.environ)["LD_PRELOAD"].split()
    except CannotBuild:
        return []
    return [
        folder for folder in {Path(path).parent for path in preloaded} if folder.parent.name == "stand-in"
    ]


def _copy_self_checks(source, target):
    with contextlib.suppress(OSError):
        names = os.listdir(os.path.join(source, "self-checks"))
        os.makedirs(os.path.join(target, "self-checks"), exist_ok=True)
        for name in names:
            Path(target, "self-checks", name).touch()


class Run:
    """One session: its exit status, its output, its JUnit file and its report.json."""

    def __init__(self, folder, args, env, *, is_cold=False):
        """``is_cold``: nobody has imported anything before the session."""
        self.folder = folder
        self.args = args
        self.report_path = folder / "membudget" / "report.json"
        shared = _shared()
        command = [_PYTHON, "-m", "pytest"] if is_cold else _WARM.command(shared)
        variables = {**shared, **_own_cache(folder), **env}
        _fill_cache(Path(variables["MEMBUDGET_CACHE_DIR"]))
        done = subprocess.run(
            [*command, *_NO_PLUGINS, "--junitxml=junit.xml", *args],
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,  # of a host that is busy with other work
            check=False,
        )
        _copy_self_checks(variables["MEMBUDGET_CACHE_DIR"], os.environ["MEMBUDGET_CACHE_DIR"])
        _forget_bytecode(folder)
        self.status = done.returncode
        self.out = done.stdout
        self.err = done.stderr
        self.lines = [line.rstrip() for line in done.stdout.splitlines()]
        #: the JUnit elements by the tests' names
        self.cases = _cases(folder / "junit.xml")
        #: report.json, if it was asked for
        self.report = json.loads(self.report_path.read_text()) if self.report_path.exists() else None

    @property
    def outcomes(self):
        """passed, failed, error, skipped or xfailed, by the tests' names."""
        return {name: _outcome(case) for name, case in self.cases.items()}

    def text(self, name):
        """The text of the failure (or the reason of the skip) of test ``name``."""
        return "\n".join(child.text or "" for child in self._endings(name))

    def message(self, name):
        """The one-line message of the failure, or of the skip, of test ``name``."""
        return "\n".join(child.get("message", "") for child in self._endings(name))

    def _endings(self, name):
        return [child for child in self.cases[name] if child.tag != "properties"]

    @property
    def rows(self):
        """report.json's rows, by the tests' names."""
        return {row["nodeid"].split("::", 1)[-1].split("::")[-1]: row for row in self.report["tests"]}

    def allocated(self, name):
        """The peak of test ``name``, bytes."""
        return self.rows[name]["estimates"][0]["peak"]["allocated"]

    @property
    def summary(self):
        """The lines of this plugin's section of the terminal summary."""
        heads = [n for n, line in enumerate(self.lines) if " membudget: GPU memory budgets " in line]
        if not heads:
            return []
        rest = self.lines[heads[-1] + 1 :]
        end = next((n for n, line in enumerate(rest) if line.startswith("====")), len(rest))
        return rest[:end]


def _forget_bytecode(folder):
    """Python takes bytecode for a file's that is of one as large and written in the same second."""
    for path in list(folder.rglob("__pycache__")):
        shutil.rmtree(path, ignore_errors=True)


def _cases(path):
    if not path.exists():
        return {}
    cases = {case.get("name"): case for case in ElementTree.parse(path).iter("testcase")}
    path.unlink()  # another run in the folder is to write its own
    return cases


def _outcome(case):
    for child in case:
        if child.tag == "failure":
            return "failed"
        if child.tag == "error":
            return "error"
        if child.tag == "skipped":
            return "xfailed" if child.get("type") == "pytest.xfail" else "skipped"
    return "passed"


def write_files(folder, files):
    """Write ``files``, text by relative path; sources may be indented."""
    for name, text in {"pyproject.toml": "", "holding.py": HOLDING, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")


@pytest.fixture(scope="module")
def session_of(tmp_path_factory):
    """``session_of(files, *args, **env)`` runs pytest over ``files`` in a new folder, and is a ``Run``.

    The report goes to the folder ``membudget`` there unless ``report=False``.
    """

    def run(files, *args, report=True, env=None, is_cold=False):
        folder = tmp_path_factory.mktemp("session")
        write_files(folder, files)
        asked = ("--membudget-report=membudget",) if report else ()
        return Run(folder, [*args, *asked], env or {}, is_cold=is_cold)

    return run


@pytest.fixture(scope="module")
def run(request, session_of):
    """A session over ``FILES`` of the test's module, once for all its tests.

    With ``--membudget`` unless ``ARGS`` say otherwise, and with the variables ``ENV``.
    """
    args = getattr(request.module, "ARGS", ("--membudget",))
    return session_of(request.module.FILES, *args, env=getattr(request.module, "ENV", None))


@pytest.fixture(scope="session")
def cache_in():
    """``cache_in(folder)``: variables of a session with a cache there, which has what is built once."""

    def cache(folder):
        _fill_cache(folder)
        return {"MEMBUDGET_CACHE_DIR": str(folder)}

    return cache


@pytest.fixture(scope="module")
def write_all():
    """``write_all(folder, files)`` writes texts by relative path."""
    return write_files


@pytest.fixture(scope="module")
def in_folder():
    """``in_folder(folder, *args)`` runs pytest in ``folder``."""
    return lambda folder, *args, env=None: Run(folder, args, env or {})


@pytest.fixture(scope="module")
def again():
    """``again(run, *args)`` runs pytest once more in the folder of ``run``."""
    return lambda run, *args, env=None: Run(run.folder, args, env or {})


@pytest.fixture(scope="session")
def start_with_cards():
    """``start_with_cards(*arguments, gpu=..., count=..., unlimited=..., environ=..., **rest)`` starts Python.

    In the repository, with the variables of a session's worker and ``environ``; it is a copy if it can be.
    """

    def start(*arguments, gpu, count, unlimited, environ=(), **rest):
        shared = _shared()
        python = _WARM.launcher(shared) or _PYTHON
        libraries = built_libraries(os.environ)
        own = {**shared, **dict(environ)}
        env = stand_in_environment(
            libraries, workers_torch(os.environ), find_gpu(gpu), count, own, unlimited=unlimited
        )
        return subprocess.Popen([python, *arguments], env=env, cwd=_ROOT, **rest)

    return start


@pytest.fixture(scope="module")
def warm_processes():
    """Workers that tests start themselves are copies too, with the variables of a session's."""
    with pytest.MonkeyPatch.context() as patch:
        shared = _shared()
        for name in os.environ.keys() - shared.keys():
            patch.delenv(name)
        for name, value in shared.items():
            patch.setenv(name, value)
        patch.setattr(sys, "executable", _WARM.command(shared)[0])
        yield


@pytest.fixture
def ordinary_processes(warm_processes, monkeypatch):
    """In one test of such: a copy is in a process group of its own, which whoever started it does not end."""
    monkeypatch.setattr(sys, "executable", _PYTHON)


@pytest.fixture(scope="module", params=[(), ("-n2",)], ids=["alone", "xdist"])
def both_ways(request):
    """The arguments of a session: once for one process, once for pytest-xdist with two."""
    if request.param:
        pytest.importorskip("xdist")
    return request.param
