"""Observer: records what a worker's process asks of paths and modules, by Python's audit events."""

import fcntl
import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..git_command import LOCAL
from .audit import CODE, LOOK, OF_MACHINE, START, raise_more_events, words_of
from .callers import asking, compiles, is_installations
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
#: In the addresses of a test's own processes (``get_temp_dir`` of multiprocessing/util.py, 3.10 to 3.14).
_OF_PROCESSES = "/pymp-"
#: The functions of ``subprocess`` that start a process, for which it has an event.
_OF_SUBPROCESS = ("_execute_child", "_posix_spawn")
#: Of git, those that read what ``States`` asks git for. Of these, what reads more.
_GIT = (
    "branch", "config", "describe", "diff", "log", "remote", "rev-list", "rev-parse", "show", "status",
    "symbolic-ref", "tag",
)  # fmt: skip
_READS_MORE = ("--ignored", "--no-index", "--output", "--ext-diff", "--textconv")
_VERSION = (["--version"], ["-V"], ["-v"], ["version"])


class Observer:
    """Installed once, before anything is imported; forked children inherit what their parent has recorded.

    It records reads through Python; files that native code opens itself are not recorded. What a test's own
    children record, as a DataLoader's workers do, goes to a file of the test's process.
    """

    def __init__(self, scratch: str) -> None:
        """``scratch``: the worker's temporary folder."""
        triton = os.environ.get("TRITON_CACHE_DIR")  # what is in it changes no figure
        self._outside = installed_folders() | {*filter(None, (triton, sys.pycache_prefix))}
        self._beginnings = tuple(folder + os.sep for folder in self._outside)
        self._own = threading.local()
        self._states = States()
        self._seen: dict[str, dict[str, str]] = {"paths": {}, "trouble": {}}
        self._made: set[str] = set()
        self._outputs: Sequence[str] = ()
        self._in_test = False
        self._pid = self._of_children = 0
        self.leave_out(scratch)

    def install(self) -> None:
        """Start recording."""
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__dict__", {}).get("__file__")
            if isinstance(file, str) and name != "__main__":
                self._see("state", os.path.abspath(file), by_all=True)
        handlers: dict[str, Callable[..., object] | None] = {
            "open": self._opened,
            LOOK: self._looked,
            **dict.fromkeys((START, "os.posix_spawn"), self._started),
            "os.fork": lambda: self._lost() if not self._in_test else None,
            "subprocess.Popen": self._runs,
            "os.listdir": lambda path: self._see("listing", _folder_of(path)),
            "os.scandir": self._scanned,
            "os.mkdir": lambda path, mode, folder: self._create(path_of(path, folder)),
            **dict.fromkeys(("os.link", "os.rename", "os.symlink"), self._moved),
            **dict.fromkeys(("os.remove", "os.rmdir"), lambda *place: self._see("state", path_of(*place))),
            "os.truncate": lambda path, length: self._see("state", path_of(path)),
            "ctypes.dlopen": self._loaded,
            **dict.fromkeys(("socket.bind", "socket.connect", "socket.sendmsg"), self._sends),
            "import": lambda module, path, *_: self._see("state", path_of(path)),
            # Triton's ptxas writes what it makes of such a file next to it
            "tempfile.mkstemp": lambda path: self._made.update((str(path_of(path)), f"{path_of(path)}.o")),
            "tempfile.mkdtemp": lambda path: self._makes(path_of(path)),
        }

        def hook(event: str, args: tuple[Any, ...]) -> None:
            if event not in handlers:
                handlers[event] = None if event.startswith(_HARMLESS) else self._lost
            handler = handlers[event]
            if handler is not None:
                self._handle(event, handler, *args)

        raise_more_events()
        sys.addaudithook(hook)
        finder: Any = self
        sys.meta_path.insert(0, finder)

    def _handle(self, event: str, handler: Callable[..., object], *args: Any) -> None:
        if not getattr(self._own, "is_running", False):
            self._own.is_running, self._own.event = True, event
            try:
                handler(*args)
            except Exception as error:  # it must not fail the test; something was not recorded
                self._note("trouble", f"{event}: {type(error).__name__}")
            finally:
                self._own.is_running = False

    def leave_out(self, scratch: str) -> None:
        """Ignore reads in the temporary folder of this process."""
        self._made |= {scratch, os.path.realpath(scratch)}

    def begin(self, outputs: Sequence[str] = ()) -> None:
        """A test begins, in its own process. ``outputs``: folders that it writes."""
        self._in_test, self._outputs = True, outputs
        self._pid, self._of_children = os.getpid(), os.memfd_create("observed")
        fcntl.fcntl(self._of_children, fcntl.F_SETFL, os.O_APPEND)

    def seen(self) -> dict[str, Any]:
        """All observations, in plain JSON types; ``trouble``: why they are incomplete."""
        size = os.fstat(self._of_children).st_size
        for line in os.pread(self._of_children, size, 0).splitlines():
            found, key, state = json.loads(line)
            self._seen[found].setdefault(key, state)
        return {**self._seen, "trouble": ", ".join(self._seen["trouble"])}

    def _note(self, found: str, key: str, state: str = "") -> None:
        self._seen[found][key] = state
        if self._pid not in (0, os.getpid()):
            os.write(self._of_children, json.dumps([found, key, state]).encode() + b"\n")

    def _lost(self, *args: Any) -> None:
        """What happens now cannot be followed."""
        if not is_installations(in_test=self._in_test):
            self._note("trouble", self._own.event)

    # Paths

    def _see(self, kind: str, path: str | None, *, reads: bool = False, by_all: bool = False) -> None:
        """Record the state of ``path`` before its first use, if the test asks, and of code whoever does.

        ``reads``: its content, which counts in outputs too. ``by_all``: whoever asks.
        """
        key = f"{kind}:{path}"
        if path is None or key in self._seen["paths"] or self._is_left_out(path, reads=reads):
            return
        if by_all or path.endswith(CODE) or asking()[0]:
            self._note("paths", key, self._states.of(kind, path, self._made))

    def _is_left_out(self, path: str, *, reads: bool = False) -> bool:
        """Whether ``path`` is of an installation, or bytecode, or was made by the test, or is an output."""
        plain = os.path.normpath(path)
        is_output = not reads and is_below(plain, self._outputs)
        is_bytecode = "__pycache__" in plain.split(os.sep)
        return is_output or is_bytecode or is_below(plain, self._outside) or is_below(plain, self._made)

    def _looked(self, name: str, given: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        """``os.stat`` or a similar function is called."""
        asked = given[0] if given else named.get("path", named.get("fd"))
        if isinstance(asked, str) and asked.startswith(self._beginnings) and ".." not in asked:
            return  # code that formats stacks looks at the files of all modules, again and again
        path = path_of(asked, named.get("dir_fd"))
        if name == "open":
            self._opens(path, given[1] if len(given) > 1 else named["flags"])
            return
        is_tests, function = asking()
        is_all = is_tests and function not in _TYPE_ONLY and name not in ("access", "readlink")
        self._see("status" if is_all else "state", path)

    def _opened(self, path: Any, mode: str | None, flags: int) -> None:
        if mode is not None and not isinstance(path, int):  # else it is ``os.open``, which is audited
            self._opens(path_of(path), flags)

    def _opens(self, path: str | None, flags: int) -> None:
        if flags & os.O_EXCL:
            self._create(path)
        elif flags & os.O_TRUNC:
            self._makes(path)
        else:
            self._see("state", path, reads=not flags & os.O_WRONLY)
            if SPECIAL in self._seen["paths"].get(f"state:{path}", ""):
                self._note("trouble", f"{path} is no regular file")

    def _scanned(self, given: Any) -> None:
        """A folder is listed; where it is the test's own code, each entry has its ``stat``, without event."""
        path = _folder_of(given)
        self._see("listing", path)
        if f"listing:{path}" in self._seen["paths"] and not asking()[1]:
            for name in os.listdir(path) if os.path.isdir(str(path)) else ():
                self._see("status", os.path.join(str(path), name))

    def _create(self, path: str | None) -> None:
        """Record whether something was at ``path`` before the process made it."""
        self._see("state", path)
        if path is not None and not os.path.lexists(path):
            self._makes(path)

    def _makes(self, path: str | None) -> None:
        """Ignore later reads at ``path``: the process has made it."""
        if path is not None and not os.path.isdir(path):
            self._made.add(path)

    def _moved(self, source: Any, target: Any, *folders: int) -> None:
        """``target`` is to be what ``source`` is: followed where the process has made that."""
        path = path_of(source, folders[0])
        if path is not None and not self._is_left_out(path):
            self._lost()
        else:
            self._makes(path_of(target, folders[-1]))

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
                self._see("module", os.path.join(folder, module), by_all=True)
            else:
                self._see("state", folder, by_all=True)

    def _sends(self, _: object, address: object) -> None:
        """A socket is used: by ``multiprocessing`` for the test's own processes, or it is the network's."""
        if address is not None and _OF_PROCESSES not in str(address):
            self._lost()

    def _started(self, *_: Any) -> None:
        if asking()[1] not in _OF_SUBPROCESS:
            self._lost()

    def _runs(self, program: Any, given: Any, folder: Any, environment: Mapping[Any, Any] | None) -> None:
        """A process, followed where its answer depends on the checkout, the program or its absence alone."""
        variables = os.environ if environment is None else environment
        words = words_of(given)
        if not words:
            self._lost()
            return
        is_shells = words[0] != os.fsdecode(program)  # its first word may be the shell's own command
        searched = [""] if os.sep in words[0] else os.get_exec_path(dict(variables))
        places = [path_of(os.path.join(folder or "", path, words[0])) for path in searched]
        found = next((n for n, place in enumerate(places) if place and os.path.isfile(place)), len(places))
        is_there = is_shells or found < len(places)
        if _asks_git(words, variables):
            self._see("git", _folder_of(folder), by_all=True)
        elif is_there and not (_asks_program(words) or compiles()):
            self._lost()
        for place in places[: found + 1]:  # those after it are not asked for
            self._see("state", place, by_all=True)


def _folder_of(given: Any) -> str | None:
    return path_of(os.curdir if given is None else given)


def _asks_git(words: Sequence[str], environment: Mapping[Any, Any]) -> bool:
    """Whether it asks git for what it knows of the checkout that it runs in."""
    if os.path.basename(words[0]) != "git" or len(words) < 2 or words[1] not in _GIT:
        return False
    return not any(word.startswith(_READS_MORE) for word in words) and not set(LOCAL) & set(environment)


def _asks_program(words: Sequence[str]) -> bool:
    """Whether its answer depends on the program and on the machine alone."""
    return os.path.basename(words[0]) in OF_MACHINE or list(words[1:]) in _VERSION
