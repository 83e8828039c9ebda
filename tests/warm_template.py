"""The warm Python: has torch and more imported, and serves with copies of itself.

Its text is run by ``python -c`` with a folder for its log, the socket where ``warm_launcher`` asks, and the
modules whose processes may be copies: those that ``worker/processes.py`` starts, those of ``python -m``, and
sessions of pytest and pytest-xdist's workers. What a copy runs is what the launcher was asked to run, with
its descriptors, variables, mounts and folder. Where that might see that torch was imported before (other
variables, flags of Python, import paths with modules of those names, limits), it is refused: then the
launcher becomes an ordinary Python.
"""

import atexit
import contextlib
import ctypes
import functools
import gc
import hashlib
import importlib
import itertools
import json
import marshal
import os
import resource
import runpy
import selectors
import signal
import socket
import sys
import tempfile
import threading
import types
import warnings
from importlib import metadata

from pytest_membudget.devices.stand_in.environment import CARDS_VARIABLE
from pytest_membudget.devices.stand_in.libraries import StandInLibraries
from pytest_membudget.hardware.gpus import find_gpu
from pytest_membudget.worker import processes

#: What a worker's process imports by itself before it waits for its files: see ``worker.__main__``.
IMPORTED = (
    "torch", "torch._dynamo.trace_rules", "torch._dynamo.variables.torch", "torch._dynamo.polyfills.loader",
    "pytest_membudget.devices.stand_in.device", "pytest_membudget.worker.__main__",
    "pytest_membudget.worker.template",
    "pytest_membudget.worker.server.serving", "pytest_membudget.worker.server.self_checks",
    "packaging.version", "platformdirs", "tomllib", "yaml",
)  # fmt: skip
#: What a session's process may have imported before pytest begins; pytest warns of other plugins among it.
SESSIONS_IMPORT = (
    "torch", "execnet.gateway_base", "email.parser", "importlib.metadata", "packaging.version",
    "platformdirs", "tomllib", "yaml", "pytest_membudget.gate.hooks",
)  # fmt: skip
#: What pytest-xdist's processes are started with, by execnet.
_EXECNET = ["-u", "-c", "import sys;exec(eval(sys.stdin.readline()))"]
#: Variables that no module reads as it is imported (``JOB_``: of tests; those of launchers);
#: what follows from the last four is made anew in a copy.
_MAY_DIFFER = (
    "PYTEST_", "MEMBUDGET_", "JOB_", "COLUMNS", "LINES", "PWD", "OLDPWD",
    "RANK", "WORLD_SIZE", "LOCAL_", "GROUP_", "ROLE_", "MASTER_", "TORCHELASTIC_",
    "CUDA_VISIBLE_DEVICES", "TORCH_NCCL_", "PYTORCH_NVML_BASED_CUDA_CHECK",
    "TRITON_CACHE_DIR", "TRITON_LIBCUDA_PATH", "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_SYMBOLIZE_MODE",  # torch reads it where it first names functions
    CARDS_VARIABLE,
    "OMP_NUM_THREADS",
    "TMPDIR",
    "PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "CC",
)  # fmt: skip
_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
_NAMESPACES = ("net", "pid", "user", "ipc")
#: ``linux/sched.h``
_CLONE_NEWNS = 0x20000
_PR_SET_PDEATHSIG = 1
_CODE = (".py", ".pyc", ".so")
#: Descriptors are moved above this before they get their own numbers.
_ABOVE = 512


class Refused(Exception):  # noqa: N818 - it is what has happened
    """A copy would not be what an ordinary Python is."""


class Template:
    """Listens, copies, and tells each launcher how its copy has ended."""

    def __init__(self, folder, listener, modules):
        """``listener``: a socket at which there may be requests already.

        ``modules``: those whose processes may be copies.
        """
        self._modules = modules
        self._log = open(os.path.join(folder, "log"), "a", encoding="utf-8")  # noqa: SIM115 - closed in copies
        self._environment = dict(os.environ)
        self._path = list(sys.path)
        self._listener = listener
        if "pytest" in modules:
            _import_all(SESSIONS_IMPORT)
            _look_up_installed()
        else:
            _import_all(IMPORTED)
            _look_up_operators()
            _name_functions()
        find_gpu("A100-80GB")  # reads all
        gc.collect()
        gc.freeze()  # a copy's collections look at what is its own
        self._names = {name.partition(".")[0] for name in sys.modules} | {"sitecustomize", "usercustomize"}
        #: torch sets a variable as it is imported, or later if it is not there: a folder below TMPDIR
        self._set = {name: os.environ[name] for name in os.environ.keys() - self._environment.keys()}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(0, selectors.EVENT_READ)

    def serve(self):
        """Returns in a copy, with what it is to run; never returns in the template itself."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj == 0:  # who has started it has ended
                    os._exit(0)
                if key.fileobj is not self._listener:
                    self._look(*key.data)
                    continue
                connection, _ = self._listener.accept()
                request = self._served(connection)
                if request is not None:
                    return request

    def _served(self, connection):
        try:
            request, descriptors = _received(connection)
        except (OSError, EOFError, ValueError):
            connection.close()
            return None
        try:
            self._check(request, _peer(connection))
            copy = _Copy(connection)
        except (Refused, OSError) as refusal:
            print("refused:", refusal, request["arguments"], file=self._log, flush=True)
            with contextlib.suppress(OSError):
                connection.sendall(b"no\n")
            connection.close()
        else:
            if copy.pid == 0:
                connection.close()
                self._forget()
                is_session = _is_session(request)  # where nobody has imported torch yet
                has_same_folder = request["environment"].get("TMPDIR") == self._environment.get("TMPDIR")
                _settle(request, descriptors, self._set if has_same_folder and not is_session else {})
                return request
            for fd in (connection.fileno(), copy.watched):
                self._selector.register(fd, selectors.EVENT_READ, (copy,))
        for fd in descriptors:
            os.close(fd)
        return None

    def _forget(self):
        """In a copy: close all, so that nothing closes a descriptor that has become another's."""
        for key in list(self._selector.get_map().values()):
            for copy in key.data or ():
                copy.connection.close()
        for each in (self._selector, self._listener, self._log):
            each.close()

    def _look(self, copy):
        """A copy has ended, or its launcher: then so must the copy."""
        if copy.is_over:  # of which there was news twice
            return
        if not copy.has_ended():
            copy.kill()
        for fd in (copy.connection.fileno(), copy.watched):
            self._selector.unregister(fd)
        copy.finish()

    def _check(self, request, pid):
        options = [*processes.interpreter_options(), *processes._against_defects()]
        wanted = [*options, "-c", processes._BOOT]
        arguments = request["arguments"][1:]
        if arguments[0] == "-B":  # which a copy can begin to heed
            del arguments[0]
        if _is_session(request):
            for folder, _, files in os.walk(request["folder"]):
                self._check_names(folder, files)
        elif arguments[0] == "-m" and arguments[1] in self._modules:
            self._check_names(request["folder"], os.listdir(request["folder"]))
        elif arguments[: len(wanted)] == wanted and len(arguments) == len(wanted) + 4:
            path, module = arguments[len(wanted) :][:2]
            if module not in self._modules:
                raise Refused("another module")
            self._check_path(list(dict.fromkeys(json.loads(path))))
        else:
            raise Refused("another program")
        request["path"] = self._added_path(request)
        told = _fixed(request["environment"], pid).items()
        differ = (told - self._set.items()) ^ _fixed(self._environment, "self").items()
        if differ:
            raise Refused(f"other variables: {sorted({name for name, _ in differ})}")
        if any(resource.prlimit(pid, limit) != resource.getrlimit(limit) for limit in _LIMITS):
            raise Refused("other limits")
        mounts = f"/proc/{pid}/ns/mnt"
        has_own = os.readlink(mounts) != os.readlink("/proc/self/ns/mnt")
        if _surroundings(pid) != _surroundings("self") or (has_own and os.geteuid() != 0):
            raise Refused("other surroundings")
        request["mounts"] = mounts if has_own else None

    def _added_path(self, request):
        """The entries of ``PYTHONPATH`` that this process has not; no module here may come from them."""
        theirs, ours = map(_python_path, (request["environment"], self._environment))
        theirs = [os.path.join(request["folder"], entry) for entry in theirs]
        if [entry for entry in theirs if entry in ours] != ours:
            raise Refused("another PYTHONPATH")
        added = [entry for entry in theirs if entry not in ours]
        for entry in added:
            with contextlib.suppress(OSError):
                self._check_names(entry, os.listdir(entry))
        return added

    def _check_path(self, path):
        """The modules that were imported are found where they were."""
        if [entry for entry in path if entry in self._path] != self._path:
            raise Refused("another import path")
        last = max(map(path.index, self._path))  # what comes later hides nothing
        for entry in set(path[:last]) - set(self._path):
            with contextlib.suppress(FileNotFoundError):
                self._check_names(entry, os.listdir(entry))

    def _check_names(self, folder, files):
        modules = {name.partition(".")[0] for name in files if "." not in name or name.endswith(_CODE)}
        if not self._names.isdisjoint(modules):
            raise Refused(f"modules of the same names in {folder}")


class _Copy:
    """A copy of this process, as the template sees it; ``pid`` is 0 in the copy."""

    def __init__(self, connection):
        self.connection = connection
        self.is_over = False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of numpy's threads, from Python 3.12 on
            self.pid = os.fork()
        if self.pid == 0:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            return
        self.watched = os.pidfd_open(self.pid)
        with contextlib.suppress(OSError):  # that the launcher has ended will be seen there too
            connection.sendall(f"{self.pid}\n".encode())

    def has_ended(self):
        return os.waitid(os.P_PIDFD, self.watched, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def kill(self):
        signal.pidfd_send_signal(self.watched, signal.SIGKILL)

    def finish(self):
        """Tell its launcher how it has ended."""
        self.is_over = True
        _, status = os.waitpid(self.pid, 0)
        with contextlib.suppress(OSError):
            self.connection.sendall(f"{status}\n".encode())
        self.connection.close()
        os.close(self.watched)


def _is_session(request):
    arguments = request["arguments"][1:]
    return arguments[:2] == ["-m", "pytest"] or arguments == _EXECNET


def _fixed(environment, pid):
    """The variables that must be equal. A session may have the same libraries in a folder of its own.

    ``pid``: of a process that sees the folder, which may be on a file system of its own too.
    """
    fixed = {name: value for name, value in environment.items() if not name.startswith(_MAY_DIFFER)}
    if "LD_PRELOAD" in fixed:
        fixed["LD_PRELOAD"] = " ".join(
            dict.fromkeys(_content(f"/proc/{pid}/root{path}") for path in fixed["LD_PRELOAD"].split())
        )
    return fixed


def _content(library):
    with contextlib.suppress(OSError), open(library, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()
    return library


def _python_path(environment):
    return list(dict.fromkeys(filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))))


def _peer(connection):
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[:4], sys.byteorder)


def _surroundings(pid):
    """What else a process has from the one that has started it."""
    namespaces = [os.readlink(f"/proc/{pid}/ns/{name}") for name in _NAMESPACES]
    kept = ("Umask", "Uid", "Gid", "Groups", "CapEff", "Seccomp", "NoNewPrivs", "Cpus_allowed_list")
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        lines = [line for line in file if line.startswith(kept)]
    return namespaces, lines, os.readlink(f"/proc/{pid}/root")


def _received(connection):
    """What a launcher tells, and its descriptors, in the order of their numbers there."""
    head, descriptors, _, _ = socket.recv_fds(connection, 8, 253)
    size, told = int.from_bytes(head, "big"), b""
    while len(told) < size and (part := connection.recv(size - len(told))):
        told += part
    if not told or len(told) < size:  # the launcher has ended
        for fd in descriptors:
            os.close(fd)
        raise EOFError
    return marshal.loads(told), descriptors


def _settle(request, descriptors, variables):
    """In a copy: be where the launcher is. ``variables``: those that imports have set."""
    import fcntl

    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for fd in descriptors]
    os.closerange(0, _ABOVE)
    for fd, number in zip(moved, request["descriptors"], strict=True):
        os.dup2(fd, number)
        os.close(fd)
    if request["leads"]:
        os.setsid()
    else:
        with contextlib.suppress(PermissionError):  # of another session: then it is in a group of its own
            os.setpgid(0, request["group"])
    if request["mounts"]:
        with open(request["mounts"], encoding="utf-8") as file:
            ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _CLONE_NEWNS)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update({**variables, **request["environment"]})
    has_option = request["arguments"][1] == "-B"
    sys.dont_write_bytecode = has_option or bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    if request["ignores_interrupts"]:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    tempfile.tempdir = None  # as nobody has asked for it yet
    if CARDS_VARIABLE in os.environ:  # read when the library was loaded
        StandInLibraries().set_cards(os.environ[CARDS_VARIABLE])
    if "OMP_NUM_THREADS" in os.environ:
        sys.modules["torch"].set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


def _run(request):
    """Run the text after ``-c``, or the module after ``-m``, as Python does."""
    sys.executable, *arguments = request["arguments"]
    sys.orig_argv[:] = [sys.executable, *arguments]
    if arguments[0] == "-m":
        sys.argv[:] = arguments[1:]
        sys.path[:0] = [os.getcwd(), *request["path"]]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    if "-u" in arguments:
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(write_through=True)
    code = arguments.index("-c") + 1
    sys.argv[:] = ["-c", *arguments[code + 1 :]]
    sys.path[:0] = ["", *request["path"]]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__builtins__ = __builtins__
    exec(compile(arguments[code], "<string>", "exec"), vars(main))


def _import_all(names):
    """As the process would, and what pytest imports of itself whatever it is asked to do."""
    for name in names:
        with contextlib.suppress(ModuleNotFoundError):  # execnet comes with pytest-xdist
            importlib.import_module(name)
    import _pytest.config

    for name in _pytest.config.default_plugins:
        importlib.import_module(f"_pytest.{name}")


def _look_up_operators():
    """What the device looks up of torch's operators, which no process changes before it is installed."""
    from pytest_membudget.devices.real import kernels
    from pytest_membudget.devices.stand_in.host import hollow
    from pytest_membudget.devices.stand_in.values import plans

    for _, operator in kernels.computing_kernels():
        plans.plan_of(operator)
    for name in hollow.computing_operators():
        hollow.host_kernel(name)


def _name_functions():
    """Have C++ functions named quickly, as a worker does when it begins."""
    from pytest_membudget.devices.stand_in import device

    device._read_unwinding_tables()
    StandInLibraries().sort_symbols()


def _look_up_installed():
    """What sessions look up of installed packages, which nobody changes while tests run."""
    from pytest_membudget.cache import session_facts
    from pytest_membudget.reporting.files import json_file

    _read_distributions_once()
    json_file.installed_distributions()
    search = session_facts.edited_files
    known = {folder: search([folder]) for folder in sys.path}

    def edited_files(folders):
        found = [known[folder] if folder in known else search([folder]) for folder in dict.fromkeys(folders)]
        return sorted(itertools.chain.from_iterable(found))

    session_facts.edited_files = edited_files


def _read_distributions_once():
    """pytest asks each distribution for its entry points, and of plugins for their files."""
    for name in ("entry_points", "files", "metadata"):
        read = getattr(metadata.Distribution, name).fget
        known = functools.cache(lambda path, read=read: read(metadata.PathDistribution(path)))
        setattr(metadata.PathDistribution, name, property(lambda one, known=known: known(one._path)))
    for one in metadata.distributions():
        if any(entry.group == "pytest11" for entry in one.entry_points):
            one.files  # noqa: B018 - to be known
        one.metadata  # noqa: B018


def main(folder, listener, *modules):
    sys.path.pop(0)  # where it was started
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        _run(Template(folder, socket.socket(fileno=int(listener)), modules).serve())
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            raise  # it has a text to print
        _leave(int(end.code or 0))
    _leave(0)


def _leave(status):
    """Exit as Python does, but for freeing each object of torch's modules: most of a short process's time."""
    threading._shutdown()  # waits for threads
    atexit._run_exitfuncs()
    processes.leave(status)


if __name__ == "__main__":
    main(*sys.argv[1:])
