"""Observer: records the files, folders, modules and variables that a worker's process reads."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from . import probes
from .callers import Callers
from .paths import installed_folders, is_below, path_of, source_of
from .states import KINDS, Importable, Kind, States, importable

Handler = Callable[[str, tuple[Any, ...]], None]

#: Python's audit events that read nothing, or that come with others that are handled
#: (docs.python.org/3/library/audit_events.html). Other events make an estimate not cacheable.
_HARMLESS = (
    "_thread.", "array.", "builtins.breakpoint", "builtins.id", "code.", "compile", "cpython.", "ctypes.",
    "exec", "fcntl.", "function.", "gc.", "glob.", "marshal.", "mmap.", "monitoring.", "object.", "os.chdir",
    "os.chflags", "os.chmod", "os.chown", "os.fwalk", "os.kill", "os.lockf", "os.putenv", "os.removexattr",
    "os.setxattr", "os.unsetenv", "os.utime", "os.walk", "pathlib.", "pdb.", "pickle.", "resource.",
    "setopencodehook", "shutil.", "signal.", "socket.__new__", "socket.gethostname", "sqlite3.connect/handle",
    "sys.", "syslog.", "time.",
)  # fmt: skip
#: The part of ``os.stat``'s result that these functions use; others may use all of it.
_TYPE_ONLY = (
    "_fastcopy_sendfile", "_isdir", "_joinrealpath", "_lexists", "_samefile", "checkcache",
    "copyfile", "exists", "is_dir", "is_file", "is_symlink", "isdir", "isfile", "isjunction", "islink",
    "lexists", "realpath", "updatecache",
)  # fmt: skip
_USED: dict[str, Kind] = {**dict.fromkeys(_TYPE_ONLY, "type"), "copymode": "mode", "getsize": "content"}
#: Files that pytest looks for and that can change a test.
_PYTEST_LOOKS_FOR = ("conftest.py", "__init__.py")


class Observer:
    """Installed once, before anything is imported; forked children inherit what their parent has recorded.

    It records reads through Python; files that native code opens itself are not recorded.
    """

    def __init__(self, scratch: str) -> None:
        """``scratch``: the worker's temporary folder."""
        triton = os.environ.get("TRITON_CACHE_DIR")  # what is in it changes no figure
        self._outside = (*installed_folders(), *([triton] if triton else []))
        #: the caches of torch.compile, which do not matter: nothing is compiled here
        self._inductors = os.path.join(tempfile.gettempdir(), "torchinductor_")
        self._callers = Callers()
        self._silence = probes.Silence()
        self._states = States()
        self._paths: dict[Kind, dict[str, str]] = {kind: {} for kind in KINDS}
        self._modules: dict[str, dict[str, dict[str, str]]] = {"modules": {}, "namespaces": {}}
        self._made: dict[str, None] = {}
        self.leave_out(scratch)
        self._bound: weakref.WeakSet[Any] = weakref.WeakSet()
        self._variables: dict[str, None] = {}
        self._trouble: dict[str, None] = {}
        self._in_test = False

    def install(self) -> None:
        """Start recording."""
        self._variables = probes.watch_environment(self._callers)
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__dict__", {}).get("__file__")
            if isinstance(file, str) and name != "__main__":
                self._keep("content", os.path.abspath(file))
        probes.watch_imports(lambda *found: self._handle(self._searched, "import", found))
        probes.watch_functions(
            lambda name, args, kwargs: self._handle(self._asked, f"os.{name}", (args, kwargs)), self._silence
        )
        probes.watch_processes(lambda *_: self._handle(self._started, "multiprocessing", ()), self._silence)
        handlers: dict[str, Handler | None] = {
            "open": self._opened,
            "os.listdir": self._listed,
            "os.scandir": self._listed,
            "os.mkdir": self._made_folder,
            "os.symlink": lambda _, args: self._create(path_of(args[1], args[2])),
            "os.link": self._moved,
            "os.rename": self._moved,
            "os.remove": lambda _, args: self._see("type", path_of(args[0], args[1])),
            "os.rmdir": lambda _, args: self._see("type", path_of(args[0], args[1])),
            "os.truncate": lambda _, args: self._see("content", path_of(args[0])),
            "os.getxattr": self._copied,
            "os.listxattr": self._copied,
            "tempfile.mkdtemp": lambda _, args: self._makes(path_of(args[0])),
            "tempfile.mkstemp": lambda _, args: self._makes(path_of(args[0])),
            "ctypes.dlopen": self._loaded,
            "import": lambda _, args: self._see("content", path_of(args[1])),
            "socket.bind": self._binds,
        }

        def hook(event: str, args: tuple[Any, ...]) -> None:
            if event not in handlers:
                handlers[event] = None if event.startswith(_HARMLESS) else self._lost
            handler = handlers[event]
            if handler is not None:
                self._handle(handler, event, args)

        sys.addaudithook(hook)

    def leave_out(self, scratch: str) -> None:
        """Ignore reads in the temporary folder of this process."""
        self._made.update({scratch: None, os.path.realpath(scratch): None})

    def begin(self) -> None:
        """A test begins, in its own process."""
        self._in_test = True

    def seen(self) -> dict[str, Any]:
        """All observations, in plain JSON types; ``trouble``: why they are incomplete."""
        self._silence.now = True
        try:
            if any(bound.fileno() != -1 for bound in self._bound):
                self._trouble["socket.bind"] = None
            return {
                "paths": self._paths,
                **self._modules,
                "variables": [*self._variables, *self._named_variables()],
                "trouble": ", ".join(self._trouble),
            }
        finally:
            self._silence.now = False

    def _named_variables(self) -> Iterator[str]:
        """The variables that recorded sources name, if reads were not recorded."""
        for path in self._paths["content"] if probes.was_unwatched() else ():
            if path.endswith(".py"):
                with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
                    yield from (name for name in probes.names_in(file.read()) if name not in self._variables)

    def _handle(self, handler: Handler, event: str, args: tuple[Any, ...]) -> None:
        if self._silence.now:
            return
        self._silence.now = True
        try:
            handler(event, args)
        except Exception as error:  # it must not fail the test; something was not recorded
            self._trouble[f"{event}: {type(error).__name__}"] = None
        finally:
            self._silence.now = False

    def _lost(self, event: str, args: tuple[Any, ...]) -> None:
        if not self._callers.is_installations(in_test=self._in_test):
            self._trouble[event] = None

    # Paths

    def _counted(self, path: str) -> str | None:
        """``path``, or the target of a link that the process has made; None if it does not count."""
        plain = os.path.normpath(path)
        if is_below(plain, self._made):
            path = plain = os.path.realpath(path)
        is_outside = is_below(plain, self._outside) or plain.startswith(self._inductors)
        return None if is_outside or is_below(plain, self._made) else path

    def _see(self, kind: Kind, path: str | None) -> None:
        """Record a read of ``kind`` of ``path``. Of pytest's reads, code and names of test files count."""
        if path is None:
            return
        path = source_of(path) if path.endswith(".pyc") else path
        if not self._callers.is_pytest() or (kind == "content" and path.endswith(".py")):
            self._keep(kind, path)
        elif os.path.basename(path) in _PYTEST_LOOKS_FOR:
            self._keep("type", path)

    def _keep(self, kind: Kind, path: str) -> None:
        """Record the state of ``path`` before its first read."""
        counted = self._counted(path)
        if counted is not None and counted not in self._paths[kind]:
            self._paths[kind][counted] = self._states.of(kind, counted)

    def _asked(self, event: str, args: tuple[Any, ...]) -> None:
        """Record a call of ``os.stat`` or a similar function."""
        given, named = args
        path = path_of(given[0] if given else named.get("path", named.get("fd")), named.get("dir_fd"))
        if event == "os.open":
            self._opened(event, (path, None, given[1] if len(given) > 1 else named["flags"]))
        elif path is not None and self._counted(path) is not None and not self._callers.is_import():
            if event in ("os.lstat", "os.readlink") or not named.get("follow_symlinks", True):
                self._see("link", path)
            if event != "os.readlink":
                kind: Kind = "mode" if event == "os.access" else _USED.get(self._callers.function(), "status")
                self._see(kind, path)

    def _started(self, event: str, args: tuple[Any, ...]) -> None:
        if self._callers.function() != "_execute_child":  # of ``subprocess``, which has an event
            self._lost("multiprocessing", args)

    def _opened(self, event: str, args: tuple[Any, ...]) -> None:
        path, flags = path_of(args[0]) if not isinstance(args[0], int) else None, args[2]
        if path is None:
            return
        if flags & os.O_CREAT and flags & os.O_EXCL:
            self._create(path)
        elif flags & os.O_TRUNC:
            self._makes(path)
        else:
            self._see("content", path)

    def _listed(self, event: str, args: tuple[Any, ...]) -> None:
        path = path_of(args[0] if args and args[0] is not None else os.curdir)
        if path is None or self._callers.is_import():
            return
        is_own = event == "os.scandir" and not self._callers.function()
        self._see("details" if is_own else "listing", path)

    def _made_folder(self, event: str, args: tuple[Any, ...]) -> None:
        if not self._callers.is_import():  # else it is for bytecode
            self._create(path_of(args[0], args[2]))

    def _create(self, path: str | None) -> None:
        """Record whether something was at ``path`` before the process made it."""
        self._see("type", path)
        if path is not None and not os.path.lexists(path):
            self._makes(path)

    def _makes(self, path: str | None) -> None:
        """Ignore later reads at ``path``: the process has made it."""
        if path is not None and not is_below(path, self._made) and not os.path.isdir(path):
            folder, name = os.path.split(path)
            self._made.update({path: None, os.path.join(os.path.realpath(folder), name): None})

    def _moved(self, event: str, args: tuple[Any, ...]) -> None:
        source, target = path_of(args[0], args[2]), path_of(args[1], args[3])
        if event == "os.link":
            self._see("content", source)
            self._create(target)
        elif source is not None and self._counted(source) is not None:
            self._lost(event, args)
        else:
            self._makes(target)

    def _loaded(self, event: str, args: tuple[Any, ...]) -> None:
        name = args[0]
        if name is not None and os.sep in os.fsdecode(name):  # else a library of the system's
            self._see("content", path_of(name))

    def _copied(self, event: str, args: tuple[Any, ...]) -> None:
        if self._callers.function() != "_copyxattr":
            self._lost(event, args)

    def _binds(self, event: str, args: tuple[Any, ...]) -> None:
        """Ignore a socket that a module opens and closes while it is imported: its port has no effect."""
        bound, address = args
        if self._callers.is_at_import() and isinstance(address, tuple) and address[1] == 0:
            self._bound.add(bound)
        else:
            self._lost(event, args)

    # Imports

    def _searched(self, event: str, args: tuple[Any, ...]) -> None:
        name, folders, spec = args
        is_found = spec is not None and spec.loader is not None
        self._search(name, "modules" if is_found else "namespaces", folders)
        if is_found and spec.has_location:
            self._keep("content", os.path.abspath(spec.origin))

    def searched(self, names: Iterable[str], folders: Sequence[str]) -> None:
        """Record a search for the modules ``names``, which would have been made in ``folders``."""
        for name in names:
            self._search(name, "modules", folders)

    def _search(self, name: str, kind: Importable, folders: Sequence[str]) -> None:
        for folder in (os.path.abspath(folder) for folder in folders):
            known = self._modules[kind].get(folder, {})
            module = name.rpartition(".")[2]
            if module not in known and self._counted(folder) is not None:
                self._modules[kind].setdefault(folder, {})[module] = importable(kind, folder, module)
