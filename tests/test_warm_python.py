"""Copies of a warm Python: what they are asked for, and an ordinary Python where that might be seen."""

import contextlib
import os
import sys
import time

import pytest

from pytest_membudget.devices.choice import find_stand_in
from pytest_membudget.worker import processes
from pytest_membudget.worker.client.order import Order, worker_import_path
from pytest_membudget.worker.processes import start_process
from tests.warm_python import WarmPython, is_possible, workers_environment

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not is_possible(), reason="sessions have ordinary Python processes alone"),
]

#: Variables of the process that runs these tests; inductor sets the last where it is imported.
_NOT_THE_SESSIONS = ("PYTEST_", "COV_", "TORCHINDUCTOR_CACHE_DIR", "PYTHONDONTWRITEBYTECODE")

EXAMPLE = """
    import os
    import signal
    import sys
    import time

    from pytest_membudget.worker.protocol import Channel

    def main(read_fd, write_fd):
        is_copy = "torch" in sys.modules  # here nobody has imported it
        channel = Channel(read_fd, write_fd)
        print("printed", flush=True)
        told = {
            "is_copy": is_copy,
            "pid": os.getpid(),
            "folder": os.getcwd(),
            "leads": os.getsid(0) == os.getpid(),
            "executable": sys.executable,
            "arguments": sys.argv[2:3],
            "said": os.environ.get("PYTEST_SAID"),
            "descriptors": sorted(map(int, os.listdir("/proc/self/fd")))[:-1],
            "ignores": signal.getsignal(signal.SIGINT) == signal.SIG_IGN,
            "writes_no_bytecode": sys.dont_write_bytecode,
            "modules": [name for name in sys.modules if name.startswith("warm_")],
        }
        channel.send(told)
        order = channel.receive()
        if order is None:
            os._exit(0)
        if "signal" in order:
            os.kill(os.getpid(), order["signal"])
            time.sleep(60)
        sys.exit(order["status"])
    """


@pytest.fixture(scope="module")
def variables():
    names = [name for name in os.environ if not name.startswith(_NOT_THE_SESSIONS)]
    return {name: os.environ[name] for name in names} | {"CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture(scope="module")
def of_workers(variables):
    return workers_environment(variables)


@pytest.fixture(scope="module")
def launcher(variables):
    warm = WarmPython(("example_of_a_process",))
    yield warm.launcher(variables)
    warm.close()


@pytest.fixture
def started(launcher, of_workers, monkeypatch, tmp_path, write_all):
    """``started(**variables)``: a process, what it has told, its channel and the file that it prints into."""
    write_all(tmp_path, {"example_of_a_process.py": EXAMPLE})
    monkeypatch.setattr(sys, "executable", str(launcher))
    monkeypatch.chdir(tmp_path)
    processes = []

    def start(folder=None, **more):
        path = import_path_with(folder or tmp_path)
        with open(tmp_path / "printed", "wb") as output:
            process, channel = start_process(
                "example_of_a_process", output, of_workers | more, import_path=path
            )
        processes.append((process, channel))
        return process, channel.receive(300), channel

    yield start
    for process, channel in processes:
        with contextlib.suppress(OSError):
            channel.close()
        process.kill()
        process.wait()


def import_path_with(folder):
    """That of a worker whose session has ``folder`` before all."""
    order = Order(args=(), dir=".", files=(), gpu="A100-80GB", timeout=60, stand_in=find_stand_in())
    path = worker_import_path(order)
    own = path[: -len(sys.path)]
    return [*own, str(folder), *path[len(own) :]]


def is_there(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def is_gone_soon(pid):
    deadline = time.monotonic() + 30
    while is_there(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_there(pid)


def test_a_copy_is_what_was_asked_for(started, launcher, tmp_path):
    process, told, _ = started(PYTEST_SAID="this")

    assert told["is_copy"]
    assert told["pid"] != process.pid
    assert told["folder"] == str(tmp_path)
    assert told["leads"]
    assert told["executable"] == str(launcher)
    assert told["arguments"] == ["example_of_a_process"]
    assert told["said"] == "this"
    assert not told["ignores"]
    assert told["modules"] == []
    assert len(told["descriptors"]) == 3 + 2
    assert (tmp_path / "printed").read_text() == "printed\n"


@pytest.mark.parametrize("options", [[], ["-B"]])
def test_a_copy_writes_bytecode_unless_told_not_to(started, monkeypatch, options):
    monkeypatch.setattr(processes, "interpreter_options", lambda: options)
    told = started()[1]

    assert told["is_copy"]
    assert told["writes_no_bytecode"] == (options == ["-B"])


@pytest.mark.parametrize("name", ["torch.py", "numpy", "sympy.cpython-311-x86_64-linux-gnu.so"])
def test_a_module_that_might_be_another_is_not_taken_from_the_copy(started, tmp_path, write_all, name):
    folder = tmp_path / "before"
    write_all(folder, {"example_of_a_process.py": EXAMPLE, name: ""})

    assert not started(folder=folder)[1]["is_copy"]


@pytest.mark.parametrize(
    ("name", "is_copy"), [("theirs.py", True), ("numpy.py", False), ("sitecustomize.py", False)]
)
def test_a_folder_of_pythonpath_that_hides_no_module_may_be_there(
    started, of_workers, tmp_path, write_all, name, is_copy
):
    write_all(tmp_path / "more", {name: ""})
    path = filter(None, [str(tmp_path / "more"), of_workers.get("PYTHONPATH")])

    assert started(PYTHONPATH=os.pathsep.join(path))[1]["is_copy"] == is_copy


@pytest.mark.parametrize("name", ["PYTHONPATH", "PYTORCH_CUDA_ALLOC_CONF", "HOME"])
def test_other_variables_are_not(started, of_workers, name):
    if name == "PYTHONPATH" and not of_workers.get(name):
        pytest.skip("workers have no PYTHONPATH here that they could lack")
    assert not started(**{name: "/elsewhere"})[1]["is_copy"]


@pytest.mark.parametrize("variables_of_it", [{}, {"TORCH_LOGS": ""}], ids=["copy", "ordinary"])
@pytest.mark.parametrize(
    ("order", "returncode"),
    [({"status": 7}, 7), ({"status": 0}, 0), *(({"signal": n}, -n) for n in (9, 11, 15))],
)
def test_it_ends_as_the_copy_does(started, variables_of_it, order, returncode):
    process, told, channel = started(**variables_of_it)
    channel.send(order)

    assert process.wait(60) == returncode
    assert not is_there(told["pid"])


def test_a_copy_ends_with_the_process_that_was_started_for_it(started):
    process, told, _ = started()

    process.kill()
    process.wait()

    assert is_gone_soon(told["pid"])


def test_processes_share_one_and_whoever_has_joined_does_not_end_it(variables):
    shared, joined = WarmPython(), WarmPython()
    joined.join(shared.share())

    launcher = joined.launcher(variables)

    joined.close()
    assert shared.launcher(variables) == launcher
    assert launcher.exists()
    shared.close()
    assert not launcher.parent.exists()


def test_the_workers_of_a_session_are_copies(session_of, both_ways):
    body = """
        import os
        from pathlib import Path

        import pytest
        from holding import hold

        @pytest.mark.mem_budget(gib=1)
        def test_it():
            hold(0.5)
            Path("worker").write_bytes(Path(f"/proc/{os.getppid()}/cmdline").read_bytes())
        """
    files = {"worker": "", "test_it.py": body}  # what a test makes is removed
    run = session_of(files, "--membudget", *both_ways)

    assert run.outcomes == {"test_it": "passed"}
    assert '\0-c\0"""The warm Python' in (run.folder / "worker").read_text()
