"""What a worker's process reads: files, folders, modules and variables, seen as it reads them."""

from __future__ import annotations

import contextlib
import os
import pathlib
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .callers import Callers
from .environment import names_in, was_unwatched, watch_environment
from .files import Signature, listing_digest, signature_of
from .imports import NAMESPACE, origin_of
from .reach import installed_folders, is_below

#: What cannot be followed, by Python's audit event (docs.python.org/3.11/library/audit_events.html).
_PROCESSES = ("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn")
_NETWORK = ("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname")
#: Of what pytest looks for, these change what a test is.
_PYTEST_LOOKS_FOR = ("conftest.py", "__init__.py")
_WRITING = os.O_TRUNC | os.O_WRONLY

#: Under this key a worker's answer has what was seen.
SEEN = "seen"

Original = Callable[..., os.stat_result]


class Observer:
    """Installed once, before anything is imported; a forked child goes on with what its parent has seen.

    It sees what goes through Python: files that native code opens by itself are not seen.
    """

    def __init__(self, scratch: str) -> None:
        """``scratch``: a folder of the worker's own."""
        triton = os.environ.get("TRITON_CACHE_DIR")  # what is in it changes no figure
        self._outside = (*installed_folders(), scratch, *([triton] if triton else []))
        self._callers = Callers()
        self._busy = threading.local()
        self._began_ns = time.time_ns()
        self._files: dict[str, Signature] = {}
        self._absent: dict[str, None] = {}
        self._folders: dict[str, None] = {}
        self._listings: dict[str, str] = {}
        self._made: dict[str, None] = {}
        self._missing: dict[str, None] = {}
        self._variables: dict[str, None] = {}
        self._trouble: dict[str, None] = {}
        self._in_test = False
        self._stat: Original = os.stat
        #: what torch.compile keeps of earlier runs, which here compile nothing
        self._inductors = os.path.join(tempfile.gettempdir(), "torchinductor_")

    def install(self) -> None:
        """From here on everything is seen."""
        self._variables = watch_environment(self._callers)
        sys.meta_path.append(_LastFinder(self._missing))
        self._watch_probes()
        handlers: dict[str, Callable[[str, tuple[Any, ...]], None]] = {
            "open": self._opened,
            "os.listdir": self._listed,
            "os.scandir": self._listed,
            "os.mkdir": self._made_folder,
            "os.rename": self._moved,
            "os.link": self._moved,
            "os.symlink": self._moved,
            "ctypes.dlopen": self._read,
            "sqlite3.connect": self._read,
            **dict.fromkeys((*_PROCESSES, *_NETWORK), self._lost),
        }

        def hook(event: str, args: tuple[Any, ...], find: Any = handlers.get) -> None:
            handler = find(event)
            if handler is not None:
                self._handle(handler, event, args)

        sys.addaudithook(hook)

    def begin(self) -> None:
        """A test begins, in a process of its own."""
        self._in_test = True

    def seen(self) -> dict[str, Any]:
        """All of it, plain JSON types only; ``trouble`` says what could not be followed."""
        self._busy.now = True
        try:
            modules, outside = self._modules()
            return {
                "files": self._files,
                "absent": list(self._absent),
                "folders": list(self._folders),
                "listings": self._listings,
                "modules": modules,
                "outside": outside,
                "missing": list(self._missing),
                "variables": [*self._variables, *self._named_variables()],
                "paths": [os.path.abspath(path) for path in sys.path if self._counts(os.path.abspath(path))],
                "trouble": ", ".join(self._trouble),
            }
        finally:
            self._busy.now = False

    def _named_variables(self) -> Iterator[str]:
        """Those that the seen sources name, where reads were not noted."""
        for path in self._files if was_unwatched() else ():
            if path.endswith(".py"):
                with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
                    yield from (name for name in names_in(file.read()) if name not in self._variables)

    def _handle(
        self, handler: Callable[[str, tuple[Any, ...]], None], event: str, args: tuple[Any, ...]
    ) -> None:
        if getattr(self._busy, "now", False):
            return
        self._busy.now = True
        try:
            handler(event, args)
        except Exception as error:  # it must not become the test's; what it was about is not known then
            self._trouble[f"{event}: {type(error).__name__}"] = None
        finally:
            self._busy.now = False

    def _counts(self, path: str) -> bool:
        return not is_below(path, self._outside) and not is_below(path, self._made)

    def _opened(self, event: str, args: tuple[Any, ...]) -> None:
        path, flags = _path_in(args), args[2]
        if path is None:
            return
        is_new = flags & os.O_CREAT and flags & os.O_EXCL
        if is_new or flags & _WRITING:
            self._makes(path)
            return
        source = _source_of(path) if path.endswith(".pyc") else path
        is_code = source.endswith(".py")
        if self._counts(source) and (is_code or not self._callers.is_pytest()):
            self._see(source)

    def _read(self, event: str, args: tuple[Any, ...]) -> None:
        path = _path_in(args)
        if path is not None and self._counts(path):
            self._see(path)

    def _see(self, path: str) -> None:
        """What is at ``path``, as it is before the program sees it; the first time counts."""
        if path in self._files or path in self._absent or path in self._folders:
            return
        try:
            found = self._stat(path)
        except OSError:
            self._absent[path] = None
            return
        if stat.S_ISREG(found.st_mode):
            self._files[path] = signature_of(found)
        elif stat.S_ISDIR(found.st_mode):
            self._folders[path] = None

    def _listed(self, event: str, args: tuple[Any, ...]) -> None:
        path = _path_in(args) if args and args[0] is not None else os.getcwd()
        if path is None or path in self._listings or not self._counts(path):
            return
        if not self._callers.is_pytest() and not self._callers.is_import():
            with contextlib.suppress(OSError):
                self._listings[path] = listing_digest(os.listdir(path))

    def _makes(self, path: str | None) -> None:
        """What is read there from now on is the program's own; not if it was read as it was before."""
        if path is not None and path not in self._files and not self._is_folder(path):
            self._made[path] = None

    def _is_folder(self, path: str) -> bool:
        try:  # a temporary file without a name is opened by its folder's
            return stat.S_ISDIR(self._stat(path).st_mode)
        except OSError:
            return False

    def _made_folder(self, event: str, args: tuple[Any, ...]) -> None:
        self._makes(_path_in(args))

    def _moved(self, event: str, args: tuple[Any, ...]) -> None:
        self._makes(_path_in(args[1:]))

    def _lost(self, event: str, args: tuple[Any, ...]) -> None:
        if not self._callers.is_installations(in_test=self._in_test):
            self._trouble[event] = None

    def _watch_probes(self) -> None:
        """``os.stat`` and its like: how Python's library asks whether a file is there."""
        for name in ("stat", "lstat", "access"):
            original = getattr(os, name)
            probe = _Probe(original, self._probed)
            setattr(os, name, probe)
            for supports in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
                if original in supports:
                    supports.add(probe)
            if hasattr(os, "supports_effective_ids") and original in os.supports_effective_ids:
                os.supports_effective_ids.add(probe)
        accessor = getattr(pathlib, "_NormalAccessor", None)  # Python 3.10's own name for os.stat
        if accessor is not None:
            accessor.stat = os.stat

    def _probed(self, path: Any) -> None:
        self._handle(self._asked, "os.stat", (path,))

    def _asked(self, event: str, args: tuple[Any, ...]) -> None:
        path = _path_in(args)
        if path is None or not self._counts(path) or path.startswith(self._inductors):
            return
        if os.path.basename(path) in _PYTEST_LOOKS_FOR or not self._callers.is_pytest():
            self._see(path)

    def _modules(self) -> tuple[dict[str, str], list[str]]:
        """The modules whose files count, and the names at the top of all others."""
        counted: dict[str, str] = {}
        outside: dict[str, None] = {}
        for name, module in list(sys.modules.items()):
            origin = _origin(module)
            folders = origin.removeprefix(NAMESPACE).split(os.pathsep) if origin else []
            if origin is None or name == "__main__" or not any(map(self._counts, folders)):
                outside[name.partition(".")[0]] = None
                continue
            counted[name] = origin
            if not origin.startswith(NAMESPACE) and origin not in self._files:
                self._see_late(origin)
        tops = {name.partition(".")[0] for name in counted}
        return counted, [name for name in outside if name not in tops]

    def _see_late(self, path: str) -> None:
        """A module's file that was not seen when it was read."""
        try:
            found = self._stat(path)
        except OSError:
            self._trouble[f"no file {path}"] = None
            return
        if max(found.st_mtime_ns, found.st_ctime_ns) >= self._began_ns:
            self._trouble[f"{path} changed"] = None
        self._files[path] = signature_of(found)


class _Probe:
    """A function of ``os`` that reports which path it is given.

    No Python function: as a builtin, it has to stay itself where it is an attribute of a class
    (``pathlib`` of Python 3.10 calls ``os.stat`` so).
    """

    def __init__(self, original: Callable[..., Any], tell: Callable[[Any], None]) -> None:
        self._original, self._tell = original, tell
        self.__module__, self.__name__, self.__doc__ = "os", original.__name__, original.__doc__

    def __call__(self, path: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("dir_fd") is None:
            self._tell(path)
        return self._original(path, *args, **kwargs)

    def __reduce__(self) -> str:
        return self.__name__


class _LastFinder:
    """Asked for the modules that no other finder has found."""

    def __init__(self, missing: dict[str, None]) -> None:
        self._missing = missing

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Finds nothing."""
        self._missing[name] = None


def _path_in(args: tuple[Any, ...]) -> str | None:
    """The path that comes first in ``args``; None for an open file's number."""
    first = args[0]
    if isinstance(first, int) or first is None:
        return None
    return os.path.abspath(os.fsdecode(first))


def _source_of(path: str) -> str:
    """The source of the bytecode at ``path``, that of pytest's own rewriting too."""
    folder, name = os.path.split(path)
    prefix = sys.pycache_prefix
    if prefix is not None and folder.startswith(prefix):
        folder = folder[len(prefix) :] or os.sep
    elif os.path.basename(folder) == "__pycache__":
        folder = os.path.dirname(folder)
    else:
        return path
    return os.path.join(folder, name.partition(f".{sys.implementation.cache_tag}")[0] + ".py")


def _origin(module: object) -> str | None:
    try:
        names: Mapping[str, Any] = object.__getattribute__(module, "__dict__")
    except AttributeError:
        return None
    return origin_of(names.get("__file__"), names.get("__path__"))
