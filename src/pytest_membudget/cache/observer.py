"""Observer: records what a worker's process asks of paths and modules, by Python's audit events."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import CodeType
from typing import Any

from . import commands
from .audit import LOOK, START, raise_more_events
from .callers import IMPORT, TEST, Callers
from .paths import installed_folders, is_below, path_of
from .states import SPECIAL, States

#: Python's audit events that read nothing, or that come with others that are handled
#: (docs.python.org/3/library/audit_events.html). Other events make an estimate not cacheable.
_HARMLESS = (
    "_thread.", "array.", "builtins.breakpoint", "builtins.id", "code.", "compile", "cpython.", "ctypes.",
    "exec", "fcntl.", "function.", "gc.", "glob.", "marshal.", "mmap.", "monitoring.", "object.", "os.chdir",
    "os.chflags", "os.chmod", "os.chown", "os.fwalk", "os.getxattr", "os.kill", "os.listxattr", "os.lockf",
    "os.putenv", "os.removexattr", "os.setxattr", "os.unsetenv", "os.utime", "os.walk", "pathlib.", "pdb.",
    "pickle.", "resource.", "setopencodehook", "shutil.", "signal.", "socket.__new__", "socket.gethostname",
    "sqlite3.connect/handle", "sys.", "syslog.", "tempfile.", "time.",
)  # fmt: skip
#: The functions that use of ``os.stat``'s result the type or the mode; others may use all of it.
_TYPE_ONLY = (
    "_fastcopy_sendfile", "_isdir", "_joinrealpath", "_lexists", "_samefile", "checkcache", "copyfile",
    "copymode", "exists", "is_dir", "is_file", "is_symlink", "isdir", "isfile", "isjunction", "islink",
    "lexists", "realpath", "updatecache",
)  # fmt: skip
#: The functions of ``subprocess`` that start a process, for which it has an event.
_OF_SUBPROCESS = ("_execute_child", "_posix_spawn")
#: Files that pytest looks for and that can change a test.
_PYTEST_LOOKS_FOR = ("conftest.py", "__init__.py")


class Observer:
    """Installed once, before anything is imported; forked children inherit what their parent has recorded.

    It records reads through Python; files that native code opens itself are not recorded.
    """

    def __init__(self, scratch: str) -> None:
        """``scratch``: the worker's temporary folder."""
        triton = os.environ.get("TRITON_CACHE_DIR")  # what is in it changes no figure
        self._outside = installed_folders() | {*filter(None, (triton, sys.pycache_prefix))}
        self._beginnings = tuple(folder + os.sep for folder in self._outside)
        self._callers = Callers()
        self._own = threading.local()
        self._states = States()
        self._paths: dict[str, str] = {}
        self._made: set[str] = set()
        self._outputs: Sequence[str] = ()
        self._trouble: dict[str, None] = {}
        self._in_test = False
        self.leave_out(scratch)

    def install(self) -> None:
        """Start recording."""
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__dict__", {}).get("__file__")
            if isinstance(file, str) and name != "__main__":
                self._keep("state", os.path.abspath(file))
        handlers: dict[str, Callable[..., object] | None] = {
            "open": self._opened,
            LOOK: self._looked,
            START: partial(self._started, "multiprocessing"),
            "os.posix_spawn": partial(self._started, "os.posix_spawn"),
            "subprocess.Popen": self._runs,
            "os.listdir": self._listed,
            "os.scandir": partial(self._listed, has_status=True),
            "os.mkdir": lambda path, mode, folder: self._create(path_of(path, folder)),
            "os.symlink": self._linked,
            "os.rename": self._moved,
            "os.remove": lambda path, folder: self._see("state", path_of(path, folder)),
            "os.rmdir": lambda path, folder: self._see("state", path_of(path, folder)),
            "os.truncate": lambda path, length: self._see("state", path_of(path)),
            "ctypes.dlopen": self._loaded,
            "import": lambda module, path, *_: self._see("state", path_of(path)),
            # Triton's ptxas writes what it makes of such a file next to it
            "tempfile.mkstemp": lambda path: self._made.update((str(path_of(path)), f"{path_of(path)}.o")),
            "tempfile.mkdtemp": lambda path: self._makes(path_of(path)),
        }

        def hook(event: str, args: tuple[Any, ...]) -> None:
            if event not in handlers:
                handlers[event] = None if event.startswith(_HARMLESS) else partial(self._lost, event)
            handler = handlers[event]
            if handler is not None:
                self._handle(event, handler, *args)

        raise_more_events()
        sys.addaudithook(hook)
        finder: Any = self
        sys.meta_path.insert(0, finder)

    def _handle(self, event: str, handler: Callable[..., object], *args: Any) -> None:
        if not getattr(self._own, "is_running", False):
            self._own.is_running = True
            try:
                handler(*args)
            except Exception as error:  # it must not fail the test; something was not recorded
                self._trouble[f"{event}: {type(error).__name__}"] = None
            finally:
                self._own.is_running = False

    def leave_out(self, scratch: str) -> None:
        """Ignore reads in the temporary folder of this process."""
        self._made |= {scratch, os.path.realpath(scratch)}

    def begin(self, outputs: Sequence[str] = ()) -> None:
        """A test begins, in its own process. ``outputs``: folders that it writes."""
        self._in_test, self._outputs = True, outputs

    def seen(self) -> dict[str, Any]:
        """All observations, in plain JSON types; ``trouble``: why they are incomplete."""
        return {"paths": self._paths, "trouble": ", ".join(self._trouble)}

    def _lost(self, event: str, *args: Any) -> None:
        """Something happened that cannot be followed."""
        if not self._callers.is_installations(in_test=self._in_test):
            self._trouble[event] = None

    # Paths

    def _see(self, kind: str, path: str | None, *, opens: bool = False) -> None:
        """Record that ``path`` is asked for; by pytest and imports, code and names of test files alone."""
        if path is None or f"{kind}:{path}" in self._paths or self._is_left_out(path):
            return
        asking, _ = self._callers.asking()
        is_code = path.endswith(".py") and (opens or asking == IMPORT)
        if asking == TEST or is_code or os.path.basename(path) in _PYTEST_LOOKS_FOR:
            self._keep(kind, path, opens=opens)

    def _keep(self, kind: str, path: str, *, opens: bool = False) -> None:
        """Record the state of ``path`` before its first read; of outputs, of what is opened alone."""
        is_output = not opens and is_below(os.path.normpath(path), self._outputs)
        if f"{kind}:{path}" not in self._paths and not is_output and not self._is_left_out(path):
            self._paths[f"{kind}:{path}"] = self._states.of(kind, path)

    def _is_left_out(self, path: str) -> bool:
        """Whether ``path`` is of an installation, or bytecode, or was made by the test."""
        plain = os.path.normpath(path)
        is_bytecode = "__pycache__" in plain.split(os.sep)
        return is_bytecode or is_below(plain, self._outside) or is_below(plain, self._made)

    def _looked(self, name: str, given: tuple[Any, ...], named: Mapping[str, Any], code: CodeType) -> None:
        """``os.stat`` or a similar function is called."""
        asked = given[0] if given else named.get("path", named.get("fd"))
        if isinstance(asked, str) and asked.startswith(self._beginnings) and ".." not in asked:
            return  # code that formats stacks looks at the files of all modules, again and again
        path = path_of(asked, named.get("dir_fd"))
        if name == "open":
            self._opens(path, given[1] if len(given) > 1 else named["flags"])
            return
        is_direct = self._callers.is_standard(code) and code.co_name in _TYPE_ONLY
        if is_direct and f"state:{path}" in self._paths:
            return
        asking, function = self._callers.asking()
        is_all = asking == TEST and function not in _TYPE_ONLY and name not in ("access", "readlink")
        self._see("status" if is_all else "state", path)

    def _opened(self, path: Any, mode: str | None, flags: int) -> None:
        if mode is not None and not isinstance(path, int):  # else it is ``os.open``, which is audited
            self._opens(path_of(path), flags)

    def _opens(self, path: str | None, flags: int) -> None:
        is_output = path is not None and is_below(os.path.normpath(path), self._outputs)
        if flags & os.O_CREAT and flags & os.O_EXCL:
            self._create(path)
        elif flags & os.O_TRUNC:
            self._makes(path)
        elif not (is_output and flags & os.O_WRONLY):
            self._see("state", path, opens=True)
            if SPECIAL in self._paths.get(f"state:{path}", ""):
                self._trouble[f"{path} is no regular file"] = None

    def _listed(self, given: Any = None, *, has_status: bool = False) -> None:
        path = path_of(os.curdir if given is None else given)
        self._see("listing", path)
        if has_status and f"listing:{path}" in self._paths and not self._callers.asking()[1]:
            for name in os.listdir(path) if os.path.isdir(str(path)) else ():
                self._keep("status", os.path.join(str(path), name))  # each entry has its own ``stat``

    def _create(self, path: str | None) -> None:
        """Record whether something was at ``path`` before the process made it."""
        self._see("state", path)
        if path is not None and not os.path.lexists(path):
            self._makes(path)

    def _makes(self, path: str | None) -> None:
        """Ignore later reads at ``path``: the process has made it."""
        if path is not None and not os.path.isdir(path):
            self._made.add(path)

    def _moved(self, source: Any, target: Any, source_folder: int, target_folder: int) -> None:
        path = path_of(source, source_folder)
        if path is not None and not self._is_left_out(path):
            self._lost("os.rename")
        else:
            self._makes(path_of(target, target_folder))

    def _linked(self, *_: Any) -> None:
        if self._callers.asking()[0] == TEST:  # pytest makes one to a newest folder
            self._lost("os.symlink")

    def _loaded(self, name: Any) -> None:
        """A library; one without a folder is the system's if it is in none of these."""
        library = os.fsdecode(name or "")
        searched = "" if os.sep in library else os.environ.get("LD_LIBRARY_PATH", "")
        for folder in searched.split(os.pathsep) if library else ():
            self._see("state", path_of(os.path.join(folder, library)))

    # Imports and processes

    def find_spec(self, name: str, path: Iterable[str] | None = None, target: object = None) -> None:
        """Of ``sys.meta_path``: record that a module is searched, and leave it to the other finders."""
        self._handle("import", self._searched, name.rpartition(".")[2], sys.path if path is None else path)

    def _searched(self, module: str, folders: Iterable[str]) -> None:
        for folder in map(os.path.abspath, folders):
            if os.path.isdir(folder):
                self._keep("module", os.path.join(folder, module))
            else:
                self._keep("state", folder)

    def _started(self, event: str, *_: Any) -> None:
        if self._callers.asking()[1] not in _OF_SUBPROCESS:
            self._lost(event)

    def _runs(self, program: Any, given: Any, folder: Any, environment: Mapping[Any, Any] | None) -> None:
        variables = os.environ if environment is None else environment
        words = commands.words_of(program, given)
        path = path_of(os.curdir if folder is None else folder)
        places = _places(words[0], path, variables) if words else []
        # of a shell's words the first may be its own command
        is_missing = words[:1] == [os.fsdecode(program or "")] and not os.path.exists(places[-1])
        if words and path is not None and commands.asks_git(words, variables):
            self._keep("git", path)
        elif not words or not (is_missing or commands.asks_program(words) or self._callers.compiles()):
            self._lost("subprocess.Popen")
            return
        for name in commands.reads(words):
            self._see("state", path_of(os.path.join(path or "", name)), opens=True)
        for place in places:
            self._keep("state", place)


def _places(program: str, folder: str | None, variables: Mapping[Any, Any]) -> list[str]:
    """Where ``program`` is looked for, up to where it is."""
    places = []
    for path in [""] if os.sep in program else os.get_exec_path(dict(variables)):
        places.append(str(path_of(os.path.join(folder or "", path, program))))
        if os.path.exists(places[-1]):
            break
    return places
