"""The plugin that makes a pytest session serve single tests instead of running them all."""

import importlib
import os
import shutil
import sys
from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest

from ... import recipes
from ...budgets.marked_test import Program
from ...budgets.node_ids import key_of, nodeid_of
from ...budgets.verdict import SKIPPED
from ...cache.states import digest_of
from ...devices.real.device import Device
from ...devices.stand_in.environment import INDUCTOR_VARIABLE
from ...names import MARKER, WORKER
from ...results.answer import TRACED, Answer, Request, failed
from ..processes import leave
from ..protocol import COLLECTING, READY, Channel, Message, Start, Task
from .changes.table import run_with_change
from .child_process import Child, SessionGone, run_in_child
from .concurrent_runs import ConcurrentRuns
from .made_files import FolderLock, MadeFiles
from .one_test.caveats import Caveats
from .one_test.item_run import ItemRun
from .session_options import collect_garbage, disable_side_effects, leave_out_reseeding, mute_terminal

#: The modules that scenarios run as ``-m``.
_RECIPES = f"{recipes.__name__}."
#: Seconds for the driver to describe its card.
_CARD_TIMEOUT = 60.0


class ServingPlugin:
    """Collects the given files, then runs each requested item in a separate child process.

    With one child for each item, nothing that a test leaves behind (cached blocks, changed modules) is there
    for the next, and a crash or a hang ends the child alone. The device, the imports and the collection are
    shared. The session does not finish when the other end closes: reports, caches and what other plugins
    write at the end are written by the user's session.
    """

    #: pluggy registers the object under this name
    __name__ = WORKER

    def __init__(
        self,
        channel: Channel,
        device: Device,
        start: Start,
        observer: Any,
    ) -> None:
        """``start``: what the session has sent. ``observer``: records what tests read; answers list it."""
        self._channel = channel
        self._device = device
        self._start = start
        self._scratch = start.scratch
        self._observer = observer
        self._collection_errors: dict[str, str] = {}
        #: files that have skipped themselves
        self._skipped: set[str] = set()
        self._items: dict[str, list[pytest.Item]] = {}
        self._folders: tuple[str, ...] = (start.dir,)
        #: Triton's: the folder of the plugin's cache may be the root
        self._besides = (os.environ.get("TRITON_CACHE_DIR", start.scratch), start.scratch)
        #: by test
        self._made: dict[tuple[str, int], MadeFiles] = {}
        self._caveats = Caveats()
        self._caveats.install()
        self.served = False
        self.trouble = ""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_load_initial_conftests(self, early_config: pytest.Config) -> Generator[None, object, object]:
        """Prepare before other plugins that begin as early as this, as coverage."""
        disable_side_effects(early_config.known_args_namespace, self._scratch)
        return (yield)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_cmdline_parse(self) -> Generator[None, pytest.Config, pytest.Config]:
        """Turn off output before plugins read the options, and collect the requested files."""
        config = yield
        disable_side_effects(config.option, self._scratch)
        leave_out_reseeding(config)
        config.args = [*self._start.files]
        return config

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Record that collection begins: failures from here on are of test files."""
        # failures are reported as they are; the user's session applies xfail marks
        session.config.option.runxfail = True
        self._channel.send(Message(COLLECTING).to_json())

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Record all items before plugins deselect: the user's session has selected already."""
        self._items.setdefault(key_of(item), []).append(item)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Record why a file or folder could not be collected."""
        report = yield
        if report.skipped:
            self._skipped.add(str(collector.path))
        if not report.passed:
            self._collection_errors[str(collector.path)] = _text_of(report)
        return report

    def pytest_internalerror(self, excrepr: object) -> None:
        """Record an error inside pytest or a plugin."""
        self.trouble = str(excrepr)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Answer requests until the other end closes."""
        self.served = True
        self._device.end_imports()
        collect_garbage()
        from .one_test import failures  # noqa: F401 - a test may make later imports impossible

        mute_terminal(session.config)
        root = str(session.config.rootpath)
        self._folders = (root, os.path.realpath(root), os.getcwd())
        for item in session.items:  # files that a plugin has made
            known = self._items.setdefault(key_of(item), [])
            if all(item is not other for other in known):
                known.append(item)
        imported_bytes = self._device.imported_bytes()
        asks_place = self._device.imports_ask_place
        ready = Message(
            READY, answer=self._card(), imported_bytes=imported_bytes, marked=self._marked(),
            asks_place=asks_place,
        )  # fmt: skip
        self._channel.send(ready.to_json())
        runs = ConcurrentRuns(self._channel, self._start.processes, self._answer, self._ended)
        with closing(FolderLock(session.config.rootpath)) as lock:
            with suppress(SessionGone):
                runs.serve(self._finds_files, lock)
            if lock.take(alone=True):
                self._remove_made(self._made.values())
        self._leave()

    def _marked(self) -> dict[str, dict[str, str]]:
        """The node ids of the tests with budgets, by file and key."""
        marked: dict[str, dict[str, str]] = {}
        for key, found in self._items.items():
            if found[-1].get_closest_marker(MARKER):
                marked.setdefault(str(found[-1].path), {})[key] = nodeid_of(found[-1])
        return marked

    def _card(self) -> Answer:
        """The properties of the card; read in a child if that would initialize the driver here."""
        device = self._device

        def look() -> Answer:
            return Answer(TRACED, properties=tuple(device.card().items()))

        return run_in_child(look, _CARD_TIMEOUT) if device.is_there and not device.is_awake else look()

    def _answer(self, task: Task) -> Child | Answer:
        """The answer to a task, or the child that gives it."""
        found = self._items.get(task.request.key, [])
        if not found and self._start.variant and task.request.file in self._skipped:
            return Answer(SKIPPED)
        if not found:
            return failed(self._not_found(task.request.file))
        if any(_identity(item) != _identity(found[0]) for item in found[1:]):
            return failed("several tests have this name: rename all but one of them")
        return self._run(found[-1], task)

    def _run(self, item: pytest.Item, task: Task) -> Child | Answer:
        if self._device.is_awake:  # an initialized driver does not survive a fork
            return replace(self._body(item, task), is_last=True)
        _import_recipe(task.request.program)
        import_compiler()
        self._device.follow_imports()
        made = self._made_files(task)
        made.put_away(self._others(task))
        made.log = self._made_log(task)
        is_real = self._device.is_there  # then the files are, too
        recording = nullcontext() if is_real else made.recording(made.log)
        return Child(partial(self._body, item, task, recording), self._start.timeout, self._channel)

    def _body(
        self, item: pytest.Item, task: Task, recording: AbstractContextManager[None] | None = None
    ) -> Answer:
        """Run ``item`` in this process, which runs no other test."""
        _take_temporary_folder(item.config, self._scratch, task.number)
        current = ItemRun(item, self._device, task.request, self._caveats, recording or nullcontext())
        change = task.request.change
        run = current.run if change is None else partial(run_with_change, change, item, current.run)
        if self._observer is None:
            return run()
        program = task.request.program
        self._observer.begin(program.outputs if program is not None else ())
        return replace(run(), seen=self._observer.seen())

    def _made_files(self, task: Task) -> MadeFiles:
        """Those below the folders of the session, and below the one a program runs in and its outputs.

        What runs again find what a run has made: each rank is a program for itself, whose files others read.
        """
        program = task.request.program
        own = (program.cwd, *program.outputs) if program is not None else ()
        test, is_shared = (task.request.key, task.request.rank), task.request.world_size > 1
        if test not in self._made:
            made = MadeFiles(*self._folders, *own, besides=self._besides, is_shared=is_shared)
            self._made[test] = made.read(self._record_of(task.request)) if is_shared else made
        return self._made[test]

    def _record_of(self, request: Request) -> Path:
        """Where this worker and others that run the test's ranks leave what a rank has made."""
        return Path(self._start.records or self._scratch, "made", digest_of(request.key), f"{request.rank}")

    def _others(self, task: Task) -> list[MadeFiles]:
        """Those of the test's other ranks."""
        key, rank = task.request.key, task.request.rank
        if task.request.world_size == 1:  # of most tests one rank runs
            return []
        made = {maker: one for (test, maker), one in self._made.items() if test == key}
        for record in self._record_of(task.request).parent.glob("*"):
            made.setdefault(int(record.name), MadeFiles().read(record))
        return [one for maker, one in made.items() if maker != rank]

    def _finds_files(self, task: Task) -> bool:
        """Whether there are files that the run would find, and is not to."""
        return self._made_files(task).has_any or any(other.resumable for other in self._others(task))

    def _made_log(self, task: Task) -> Path:
        return Path(self._scratch, f"made-{task.number}")

    def _ended(self, task: Task, is_alone: bool) -> bool:
        is_changed = any(other.has_saved for other in self._others(task))
        made = self._made_files(task)
        made.end(self._made_log(task))
        if made.is_shared:
            made.write(self._record_of(task.request))
        if is_alone:
            self._remove_made(made for made in self._made.values() if not made.is_shared)
        shutil.rmtree(_temporary_folder(self._scratch, task.number), ignore_errors=True)
        return is_changed

    def _remove_made(self, runs: Iterable[MadeFiles]) -> None:
        for made in reversed([*runs]):  # a later one's may be in an earlier one's folders
            made.remove()

    def _leave(self) -> NoReturn:
        shutil.rmtree(self._scratch, ignore_errors=True)  # the session was killed
        leave(0)

    def _not_found(self, file: str) -> str:
        for path, error in self._collection_errors.items():
            if file == path or file.startswith(path + os.sep):
                return f"{path} could not be collected in the worker, where CUDA is available:\n{error}"
        return (
            "the worker did not collect this test: its collection must not depend on the process "
            "it runs in (random parameters, a different working folder, a missing GPU that it checks for)"
        )


def _import_recipe(program: Program | None) -> None:
    """Import what a scenario's recipe does, in the process that is copied for each test: seconds of each."""
    words = () if program is None else program.words
    if words and words[0] == "-m" and words[1].startswith(_RECIPES):
        with suppress(Exception):  # its test will raise it
            importlib.import_module(words[1])
        sys.modules.pop(words[1], None)  # it is to run as a program, and was not there before


def import_compiler() -> None:
    """Import inductor, in the process that is copied for each test, once one has compiled: seconds.

    Each test has a folder for what it compiles, and one that compiles nothing leaves it empty.
    """
    if any(Path(os.environ.get(INDUCTOR_VARIABLE, os.devnull)).glob("*/*")):
        with suppress(Exception):  # its test will raise it
            importlib.import_module("torch._inductor.compile_fx")


def _take_temporary_folder(config: pytest.Config, scratch: str, number: int) -> None:
    """A separate base for the test's ``tmp_path``, in a new folder: a test may delete the folder above.

    pytest empties the base when it makes it, and makes no folder above it.
    """
    factory: Any = getattr(config, "_tmp_path_factory", None)
    if getattr(factory, "_basetemp", None) is None and hasattr(factory, "_given_basetemp"):
        folder = _temporary_folder(scratch, number)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        factory._given_basetemp = folder / "base"


def _temporary_folder(scratch: str, number: int) -> Path:
    return Path(scratch, f"tmp-{number}")


def _text_of(report: pytest.CollectReport) -> str:
    if isinstance(report.longrepr, tuple):  # a skip: file, line and reason
        path, line, reason = report.longrepr
        return f"{path}:{line}: {reason}"
    return str(report.longrepr)


def _identity(item: pytest.Item) -> tuple[object, str]:
    """What items that are one test, collected twice, have in common."""
    return getattr(item, "function", item), getattr(getattr(item, "callspec", None), "id", "")
