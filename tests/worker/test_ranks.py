"""Several ranks for one test: all report, the one that fails first is named, and no process stays behind.

Everything but the GPU is as it is for one: gloo for NCCL, and a device of this file's that counts what a body
says it takes.
"""

import json
import os
import pickle
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from pytest_membudget.devices.torch_build.build import environments_torch
from pytest_membudget.devices.torch_build.installed import workers_torch
from pytest_membudget.results.answer import Request
from pytest_membudget.worker.client.order import Order
from pytest_membudget.worker.ranks.launch_ranks import measure_ranks
from tests.warm_python import workers_environment

DEVICE = """
    from pytest_membudget.components import METRICS
    from pytest_membudget.devices.real.device import Device
    from pytest_membudget.memory_report import MemoryReport

    taken = []

    def made_for(gpu):
        return Counting()

    class Counting(Device):
        name = "the counting device"
        is_awake = True

        def install(self):
            pass

        def begin(self, request):
            taken.clear()

        def body_ended(self, *, is_program=False):
            pass

        def end(self, *, metric, root, records=False):
            total = sum(taken)
            return MemoryReport("measured", metric, dict.fromkeys(METRICS, total), {"activations": total})

        def snapshot(self):
            return {"segments": []}
    """

BODIES = """
    import os
    import signal
    import subprocess
    import sys
    import time

    import counting_device
    import pytest
    import torch
    import torch.distributed as dist

    @pytest.fixture(autouse=True)
    def noted(request):
        # the process group is there before any setup
        child = subprocess.Popen(["sleep", "1000"])
        with open(f"pids-{request.node.name}-{dist.get_rank()}.part", "w") as file:
            file.write(f"{os.getpid()} {child.pid}")
        os.rename(file.name, file.name.removesuffix(".part"))

    def total():
        value = torch.tensor([dist.get_rank() + 1])
        dist.all_reduce(value)
        return int(value)

    def is_rank_1(words=""):
        total()
        if dist.get_rank() == 1:
            print(words)
        return dist.get_rank() == 1

    def test_reduces(record_property):
        assert os.environ["RANK"] == str(dist.get_rank())
        assert os.environ["WORLD_SIZE"] == str(dist.get_world_size())
        record_property("world size", dist.get_world_size())
        counting_device.taken.append(1000 * total() + dist.get_rank())

    def test_makes_its_own_group():
        with pytest.raises(ValueError, match="init_process_group.backend='mpi'.: the test runs in a process"):
            dist.init_process_group("mpi")
        with pytest.raises(ValueError, match="initialize the default process group twice"):
            dist.init_process_group("gloo")

    def test_finds_the_group():
        assert dist.get_backend() == "gloo"
        dist.init_process_group("cpu:gloo", rank=dist.get_rank())
        assert dist.get_backend() == "cpu:gloo"
        counting_device.taken.append(total())
        dist.destroy_process_group()

    def test_killed():
        if is_rank_1("layer 1 of it"):
            os.kill(os.getpid(), signal.SIGKILL)
        total()

    def test_leaves():
        if is_rank_1("layer 2 of it"):
            os._exit(0)
        total()

    def test_raises():
        if is_rank_1("layer 3 of it"):
            raise ValueError("no such layer")
        total()

    def test_out_of_memory():
        if is_rank_1("layer 4 of it"):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 80.00 GiB.")
        total()

    def test_writes_into_the_pipe():
        if is_rank_1("layer 6 of it"):
            os.write(int(sys.argv[-1]), b"no message\\n")
        total()

    def test_hangs():
        if is_rank_1("layer 5 of it"):
            time.sleep(1000)
        total()

    @pytest.mark.skipif("int(os.environ['RANK']) >= 0", reason="no such kernel")
    def test_skipped():
        pass
    """

SESSION = """
    import json, sys
    from pytest_membudget.results.answer import Request
    from pytest_membudget.worker.client.order import Order
    from pytest_membudget.worker.ranks.launch_ranks import measure_ranks

    order, gpus, request = json.loads(sys.argv[1])
    measure_ranks(Order(**order), gpus, Request.from_json(request))
    """

LINES = {
    "test_killed": ("layer 1 of it", "its process was ended by signal 9 (SIGKILL) before its test did"),
    "test_leaves": ("layer 2 of it", "its process left with status 0 before its test did"),
    "test_raises": ("layer 3 of it", "ValueError in call at test_bodies.py:"),
    "test_out_of_memory": ("layer 4 of it", "CUDA out of memory. Tried to allocate 80.00 GiB."),
    "test_writes_into_the_pipe": (
        "layer 6 of it",
        "the test's process has written into the pipe",
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, warm_processes, cuda_build):
    """The user's folder: test bodies, their device, and a script that is a session.

    The ranks are copies of workers of estimates: with their variables, and their torch.
    """
    pytest.importorskip("torch.distributed")  # this process's own
    folder = tmp_path_factory.mktemp("ranks")
    files = {"counting_device.py": DEVICE, "test_bodies.py": BODIES, "session.py": SESSION}
    for name, text in {**files, "pytest.ini": "[pytest]\n"}.items():
        (folder / name).write_text(textwrap.dedent(text))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in workers_environment(os.environ).items():
            patch.setenv(name, value)
        patch.setattr(sys, "path", [*workers_path(), str(folder), *sys.path])
        yield folder


def workers_path():
    return [path for path in map(str, workers_torch(os.environ).import_path) if path not in sys.path]


@pytest.fixture
def ordinary(ordinary_processes, monkeypatch):
    """With the environment's torch, and no cards."""
    torch = workers_torch(os.environ)
    if torch != environments_torch():  # whose folder has all else too
        first = list(map(str, torch.import_path))
        monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in first])
    for name in ("LD_PRELOAD", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)


def order_in(folder, timeout):
    return {
        "args": ["-p", "no:cacheprovider"],
        "dir": str(folder),
        "files": [str(folder / "test_bodies.py")],
        "timeout": timeout,
        "gpu": "H100-80GB",
        "device": "counting_device:made_for",
        "backend": "gloo",
    }


def request_of(folder, name, snapshot=None):
    file = str(folder / "test_bodies.py")
    key = f"{file}::{name}"
    return Request(key, file, "H100-80GB", False, "allocated", snapshot)


def answer_of(folder, name, gpus=2, timeout=120.0, snapshot=None):
    order = Order(**order_in(folder, timeout))
    return measure_ranks(order, gpus, request_of(folder, name, snapshot))


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def noted_pids(folder, name, ranks):
    """The rank's process, and one that it has started; of all ranks."""
    return [int(pid) for rank in range(ranks) for pid in (folder / f"pids-{name}-{rank}").read_text().split()]


def all_end(pids, seconds=10.0):
    deadline = time.monotonic() + seconds
    while any(map(is_running, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(map(is_running, pids))


def wait_for(path, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} has not come"
        time.sleep(0.05)


def start_session(folder, name):
    arguments = json.dumps([order_in(folder, 120.0), 2, request_of(folder, name).to_json()])
    return subprocess.Popen(
        [sys.executable, str(folder / "session.py"), arguments],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def of_four(folder):
    return answer_of(folder, "test_reduces", gpus=4, snapshot=str(folder / "snapshots" / "reduces.pickle"))


def test_every_rank_reports_what_it_took_in_a_working_process_group(of_four):
    # an all_reduce over the ranks' numbers from 1 on gives 1 + 2 + 3 + 4
    assert of_four.outcome == "traced"
    taken = [(report.rank, report.peak["allocated"]) for report in of_four.reports]
    assert taken == [(0, 10_000), (1, 10_001), (2, 10_002), (3, 10_003)]


def test_what_the_test_records_comes_once(of_four):
    assert of_four.properties == (("world size", 4),)


def test_each_rank_leaves_a_snapshot_of_its_own(of_four, folder):
    assert of_four.has_snapshot
    names = sorted(path.name for path in (folder / "snapshots").iterdir())
    assert names == [f"reduces-rank{rank}.pickle" for rank in range(4)]
    assert pickle.loads((folder / "snapshots" / names[3]).read_bytes()) == {"segments": []}


def test_a_test_can_make_its_process_group_itself(folder):
    """1 + 2 from each; and one that asks for another group is told, or for a second one."""
    found = answer_of(folder, "test_finds_the_group", gpus=2)
    refused = answer_of(folder, "test_makes_its_own_group", gpus=2)

    assert [report.peak["allocated"] for report in found.reports] == [3, 3], found
    assert refused.outcome == "traced", refused


@pytest.mark.usefixtures("ordinary")
@pytest.mark.parametrize("name", ["test_finds_the_group", "test_leaves"])
def test_no_process_is_left_after_all_have_reported_or_one_has_left(folder, name):
    answer_of(folder, name)

    assert all_end(noted_pids(folder, name, 2))


@pytest.mark.parametrize("name", LINES)
def test_the_rank_that_fails_is_named_with_its_last_lines(folder, name):
    printed, reason = LINES[name]

    answer = answer_of(folder, name)

    assert answer.outcome == ("out_of_memory" if name == "test_out_of_memory" else "error")
    assert answer.failed_rank == 1
    assert answer.reason.startswith(f"rank 1 of 2: {reason}")
    assert f"The last lines of rank 1:\n{printed}" in answer.details
    assert "Rank 0 " in answer.details
    assert (answer.where or "test_bodies.py:").startswith("test_bodies.py:")


def test_a_rank_that_hangs_is_named_with_the_line_where_it_is(folder):
    began = time.monotonic()
    answer = answer_of(folder, "test_hangs", timeout=5.0)

    assert time.monotonic() - began < 35
    assert answer.failed_rank == 1
    assert answer.reason.startswith("rank 1 of 2: it did not finish within 5 s")
    assert "test_bodies.py" in answer.reason.splitlines()[2]
    assert answer.reason.splitlines()[2].endswith("in test_hangs")
    assert "layer 5 of it" in answer.details
    assert "Rank 0 failed too: it did not finish within 5 s" in answer.details


def test_a_test_that_every_rank_skips_is_skipped(folder):
    answer = answer_of(folder, "test_skipped")

    assert (answer.outcome, answer.reason) == ("skipped", "no such kernel")


def test_a_test_that_is_not_there_is_reported(folder):
    answer = answer_of(folder, "test_of_another_file")

    assert answer.outcome == "error"
    assert "of 2: the worker did not collect this test" in answer.reason


@pytest.mark.usefixtures("ordinary")
def test_a_session_that_is_killed_takes_its_ranks_with_it(folder):
    for old in folder.glob("pids-test_hangs-*"):
        old.unlink()
    session = start_session(folder, "test_hangs")
    for rank in range(2):
        wait_for(folder / f"pids-test_hangs-{rank}")
    session.kill()
    session.communicate()

    assert all_end(noted_pids(folder, "test_hangs", 2))
