"""Observer: records what a worker's process asks of files, folders and modules, by Python's audit events."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from . import commands
from .audit import LOOK, SEARCH, START, raise_more_events
from .callers import Callers
from .paths import installed_folders, is_below, path_of, source_of
from .states import KINDS, Kind, States

#: Python's audit events that read nothing, or that come with others that are handled
#: (docs.python.org/3/library/audit_events.html). Other events make an estimate not cacheable.
_HARMLESS = (
    "_thread.", "array.", "builtins.breakpoint", "builtins.id", "code.", "compile", "cpython.", "ctypes.",
    "exec", "fcntl.", "function.", "gc.", "glob.", "marshal.", "mmap.", "monitoring.", "object.", "os.chdir",
    "os.chflags", "os.chmod", "os.chown", "os.fwalk", "os.kill", "os.lockf", "os.putenv", "os.removexattr",
    "os.setxattr", "os.unsetenv", "os.utime", "os.walk", "pathlib.", "pdb.", "pickle.", "resource.",
    "setopencodehook", "shutil.", "signal.", "socket.__new__", "socket.gethostname", "sqlite3.connect/handle",
    "sys.", "syslog.", "tempfile.", "time.",
)  # fmt: skip
#: The functions that use of ``os.stat``'s result the type or the mode; others may use all of it.
_TYPE_ONLY = (
    "_fastcopy_sendfile", "_isdir", "_joinrealpath", "_lexists", "_samefile", "checkcache", "copyfile",
    "copymode", "exists", "is_dir", "is_file", "is_symlink", "isdir", "isfile", "isjunction", "islink",
    "lexists", "realpath", "updatecache",
)  # fmt: skip
#: The functions of ``tempfile`` that make what has a name at random.
_AT_RANDOM = ("_get_default_tempdir", "_mkstemp_inner", "mkdtemp")
#: Files that pytest looks for and that can change a test.
_PYTEST_LOOKS_FOR = ("conftest.py", "__init__.py")


class Observer:
    """Installed once, before anything is imported; forked children inherit what their parent has recorded.

    It records reads through Python; files that native code opens itself are not recorded.
    """

    def __init__(self, scratch: str) -> None:
        """``scratch``: the worker's temporary folder."""
        triton = os.environ.get("TRITON_CACHE_DIR")  # what is in it changes no figure
        self._outside = (*installed_folders(), *filter(None, (triton, sys.pycache_prefix)))
        self._callers = Callers()
        self._own = threading.local()
        self._states = States()
        self._paths: dict[Kind, dict[str, str]] = {kind: {} for kind in KINDS}
        self._made: dict[str, None] = {}
        self._outputs: Sequence[str] = ()
        self._trouble: dict[str, None] = {}
        self._in_test = False
        self.leave_out(scratch)

    def install(self) -> None:
        """Start recording."""
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__dict__", {}).get("__file__")
            if isinstance(file, str) and name != "__main__":
                self._keep("content", os.path.abspath(file))
        handlers: dict[str, Callable[..., None] | None] = {
            "open": self._opened,
            LOOK: self._looked,
            SEARCH: self._searched,
            START: self._started,
            "subprocess.Popen": self._runs,
            "os.listdir": partial(self._listed, "os.listdir"),
            "os.scandir": partial(self._listed, "os.scandir"),
            "os.mkdir": lambda path, mode, folder: self._create(path_of(path, folder)),
            "os.symlink": lambda source, target, folder: self._create(path_of(target, folder)),
            "os.rename": self._moved,
            "os.remove": lambda path, folder: self._see("type", path_of(path, folder)),
            "os.rmdir": lambda path, folder: self._see("type", path_of(path, folder)),
            "os.truncate": lambda path, length: self._see("content", path_of(path)),
            "ctypes.dlopen": self._loaded,
            "import": lambda module, path, *_: self._see("content", path_of(path)),
        }

        def hook(event: str, args: tuple[Any, ...]) -> None:
            if event not in handlers:
                handlers[event] = None if event.startswith(_HARMLESS) else partial(self._lost, event)
            handler = handlers[event]
            if handler is not None and not getattr(self._own, "is_running", False):
                self._own.is_running = True
                try:
                    handler(*args)
                except Exception as error:  # it must not fail the test; something was not recorded
                    self._trouble[f"{event}: {type(error).__name__}"] = None
                finally:
                    self._own.is_running = False

        raise_more_events()
        sys.addaudithook(hook)

    def leave_out(self, scratch: str) -> None:
        """Ignore reads in the temporary folder of this process."""
        self._made.update({scratch: None, os.path.realpath(scratch): None})

    def begin(self, outputs: Sequence[str] = ()) -> None:
        """A test begins, in its own process. ``outputs``: folders that it writes."""
        self._in_test, self._outputs = True, outputs

    def seen(self) -> dict[str, Any]:
        """All observations, in plain JSON types; ``trouble``: why they are incomplete."""
        return {"paths": self._paths, "trouble": ", ".join(self._trouble)}

    def _lost(self, event: str, *args: Any) -> None:
        """Something happened that cannot be followed."""
        is_copying = self._callers.function() == "_copyxattr"  # of ``shutil``
        if not is_copying and not self._callers.is_installations(in_test=self._in_test):
            self._trouble[event] = None

    # Paths

    def _counted(self, path: str) -> str | None:
        """``path``, or the target of a link that the process has made; None if it does not count."""
        plain = os.path.normpath(path)
        if is_below(plain, self._made):
            path = plain = os.path.realpath(path)
        is_bytecode = "__pycache__" in plain.split(os.sep)
        return None if is_bytecode or is_below(plain, (*self._outside, *self._made)) else path

    def _see(self, kind: Kind, path: str | None) -> None:
        """Record a read of ``kind`` of ``path``. Of pytest's reads, code and names of test files count."""
        if path is None:
            return
        path = source_of(path) if path.endswith(".pyc") else path
        if self._callers.is_tests() or (kind == "content" and path.endswith(".py")):
            self._keep(kind, path)
        elif os.path.basename(path) in _PYTEST_LOOKS_FOR:
            self._keep("type", path)

    def _keep(self, kind: Kind, path: str) -> None:
        """Record the state of ``path`` before its first read; of outputs, of what was there before alone."""
        counted = self._counted(path)
        is_output = kind != "content" and is_below(path, self._outputs)
        if counted is not None and not is_output and counted not in self._paths[kind]:
            self._paths[kind][counted] = self._states.of(kind, counted)

    def _looked(self, name: str, given: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        """``os.stat`` or a similar function is called."""
        path = path_of(given[0] if given else named.get("path", named.get("fd")), named.get("dir_fd"))
        if name == "open":
            self._opens(path, given[1] if len(given) > 1 else named["flags"])
        elif not self._callers.is_import():
            is_type = name in ("access", "readlink") or self._callers.function() in _TYPE_ONLY
            self._see("type" if is_type else "status", path)

    def _opened(self, path: Any, mode: str | None, flags: int) -> None:
        if mode is not None and not isinstance(path, int):  # else it is ``os.open``, which is audited
            self._opens(path_of(path), flags)

    def _opens(self, path: str | None, flags: int) -> None:
        is_output = path is not None and is_below(path, self._outputs)
        if flags & os.O_CREAT and flags & os.O_EXCL:
            self._create(path)
        elif flags & os.O_TRUNC:
            self._makes(path)
        elif not (is_output and flags & os.O_WRONLY):
            self._see("type" if path is not None and os.path.isdir(path) else "content", path)

    def _listed(self, event: str, given: Any = None) -> None:
        path = path_of(os.curdir if given is None else given)
        if path is None or self._callers.is_import():
            return
        self._see("listing", path)
        if event == "os.scandir" and not self._callers.function() and os.path.isdir(path):
            for name in os.listdir(path):  # each entry of ``os.scandir`` has its own ``stat``
                self._see("status", os.path.join(path, name))

    def _create(self, path: str | None) -> None:
        """Record whether something was at ``path`` before the process made it."""
        if self._callers.function() not in _AT_RANDOM:
            self._see("type", path)
        if path is not None and not os.path.lexists(path):
            self._makes(path)

    def _makes(self, path: str | None) -> None:
        """Ignore later reads at ``path``: the process has made it."""
        if path is not None and not is_below(path, self._made) and not os.path.isdir(path):
            folder, name = os.path.split(path)
            self._made.update({path: None, os.path.join(os.path.realpath(folder), name): None})

    def _moved(self, source: Any, target: Any, source_folder: int, target_folder: int) -> None:
        path = path_of(source, source_folder)
        if path is not None and self._counted(path) is not None:
            self._lost("os.rename")
        else:
            self._makes(path_of(target, target_folder))

    def _loaded(self, name: Any) -> None:
        if name is not None and os.sep in os.fsdecode(name):
            self._see("content", path_of(name))
        elif name is not None:  # after these folders it is a library of the system's
            for folder in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
                self._see("content", path_of(os.path.join(os.fsencode(folder), os.fsencode(name))))

    # Imports

    def _searched(self, name: str, folders: Sequence[str], is_found: bool) -> None:
        module = name.rpartition(".")[2]
        for folder in (os.path.abspath(folder) for folder in folders):
            if os.path.isdir(folder):
                self._keep("module", os.path.join(folder, module))
            if not is_found or not os.path.isdir(folder):  # a folder is a package too, where there is none
                self._keep("type", os.path.join(folder, module) if os.path.isdir(folder) else folder)

    def searched(self, names: Iterable[str], folders: Sequence[str]) -> None:
        """Record a search for the modules ``names``, which would have been made in ``folders``."""
        for name in names:
            self._searched(name, folders, True)

    # Processes

    def _started(self, name: str, given: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        if self._callers.function() != "_execute_child":  # of ``subprocess``, which has an event
            self._lost("multiprocessing")

    def _runs(self, program: Any, given: Any, folder: Any, environment: Mapping[Any, Any] | None) -> None:
        variables = os.environ if environment is None else environment
        words = commands.words_of(program, given)
        path = path_of(os.curdir if folder is None else folder)
        if words and path is not None and commands.asks_git(words, variables):
            self._keep("git", path)
        elif not words or not commands.asks_program(words):
            self._lost("subprocess.Popen")
            return
        for place in commands.places(words[0], variables):
            self._see("content", path_of(os.path.join(path or os.curdir, place)))
            if os.path.exists(place):
                break
