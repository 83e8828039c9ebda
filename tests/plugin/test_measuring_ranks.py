"""Budgets for several GPUs, measured: real processes that meet over gloo, on machines without a GPU.

The device that tests are measured on counts what a body says it takes; all else is as it is on CUDA. A body
finds out whether it is measured, as no user's would, to make the two figures differ.
"""

import pytest

ASKED = ("-p", "pytest_membudget.testing", "--membudget")
CONFTEST = """
    from pytest_membudget.testing import GivenDevice

    def pytest_membudget_estimates():
        return GivenDevice("counting_device:made_for", backend="gloo")
    """
DEVICE = """
    from pytest_membudget.devices import contract
    from pytest_membudget.components import COMPONENTS
    from pytest_membudget.memory_report import MemoryReport, PeakBytes

    taken = []

    def made_for(order):
        return Counting()

    class Counting(contract.Device):
        name = "CUDA"
        is_awake = False

        def install(self):
            pass

        def card(self):
            return {"count": 2, "name": "Stand-in 40GB", "total_bytes": 40 * 2**30}

        def imported_bytes(self):
            return 0

        def begin(self, gpu, *, limited):
            taken.clear()

        def end(self, *, metric, root):
            total = sum(taken)
            components = {**dict.fromkeys(COMPONENTS, 0), "inputs": total}
            return MemoryReport("measured", metric, PeakBytes(*[total] * 4), components)

        def snapshot(self):
            return None
    """
BODIES = """
    import os
    import signal
    import pytest
    from holding import hold

    def is_measured():
        return os.environ["CUDA_VISIBLE_DEVICES"] != ""  # as it is in the worker for estimates

    def take(estimated, measured):
        import counting_device

        if is_measured():
            counting_device.taken.append(int(measured * 2**30))
            return None
        return hold(estimated)

    def meet():
        import torch
        import torch.distributed as dist

        # gloo's is on the CPU, and NCCL's is not
        value = torch.ones(1, device="cpu" if is_measured() else "cuda")
        dist.all_reduce(value)
        return dist.get_rank()

    @pytest.mark.mem_budget(gib=1, gpus=2)
    def test_within():
        rank = meet()
        kept = take(0.5, 0.75 if rank else 0.5)

    @pytest.mark.mem_budget(gib=1, gpus=2, components={"inputs": 0.875})
    def test_rank_1_is_over():
        rank = meet()
        kept = take(0.5, 1.25 if rank else 0.5)

    @pytest.mark.mem_budget(gib=1, gpus=2)
    def test_rank_1_is_killed():
        kept = take(0.5, 0.5)
        if meet() == 1 and is_measured():
            print("layer 7 of it")
            os.kill(os.getpid(), signal.SIGKILL)
        meet()

    @pytest.mark.mem_budget(gib=1, gpus=4)
    def test_more_gpus_than_there_are():
        kept = take(0.5, 0.5)

    @pytest.mark.mem_budget(gib=1)
    def test_one_gpu():
        assert "RANK" not in os.environ
        kept = take(0.5, 0.25)
    """
FILES = {"conftest.py": CONFTEST, "counting_device.py": DEVICE, "test_budgets.py": BODIES}
#: two devices that no other test locks
ON_TWO = {"CUDA_VISIBLE_DEVICES": "71,72"}
#: so that a session ends long before the test that waits for it
PYPROJECT = {"pyproject.toml": "[tool.membudget]\ntimeout = 60\ndevice = 'fake'\n"}
GIB = 2**30


@pytest.fixture(scope="module")
def run(session_of):
    return session_of({**FILES, **PYPROJECT}, *ASKED, env=ON_TWO)


def peaks(row):
    return [(one["rank"], one["peak"]["allocated_bytes"] / GIB) for one in row["measurements"]]


def test_every_rank_is_measured(run):
    row = run.rows["test_within"]

    assert run.outcomes["test_within"] == "passed", run.out
    assert row["verdict"] == "within"
    assert peaks(row) == [(0, 0.5), (1, 0.75)]


def test_a_rank_that_is_over_budget_fails_the_test_and_is_named(run):
    row = run.rows["test_rank_1_is_over"]

    assert run.outcomes["test_rank_1_is_over"] == "failed"
    assert row["reason"] == "measured on CUDA: rank 1 of 2: 0.25 GiB over its budget of 1 GiB"
    assert row["rank"] == 1
    lines = [" ".join(line.split()) for line in run.text("test_rank_1_is_over").splitlines()]
    start = lines.index("Ranks by their peaks (2 of 2 measured):")
    assert lines[start + 1 : start + 3] == ["rank 1 1.25 GiB", "rank 0 0.50 GiB"]
    assert any(line.startswith("Peak memory of rank 1 of 2") for line in lines)


def test_a_rank_that_is_killed_is_named_with_its_last_lines(run):
    assert run.outcomes["test_rank_1_is_killed"] == "failed"
    reason = "measured on CUDA: rank 1 of 2: its process was ended by signal 9 (SIGKILL) before its test did"
    assert run.rows["test_rank_1_is_killed"]["reason"] == reason
    assert "layer 7 of it" in run.text("test_rank_1_is_killed")


def test_more_gpus_than_there_are_are_not_measured_and_nothing_fails(run):
    row = run.rows["test_more_gpus_than_there_are"]

    assert run.outcomes["test_more_gpus_than_there_are"] == "passed"
    assert row["not_measured"] == "2 CUDA devices, and gpus=4"


def test_the_summary_counts_them_as_any_other(run):
    (line,) = [line for line in run.summary if " estimated (" in line]

    # not the one whose ranks came to no figure
    assert line.endswith("1 without an estimate, 3 measured, 1 not measured")
    assert "not measured: 1 (2 CUDA devices, and gpus=4)" in run.summary


@pytest.mark.parametrize(("rank", "world_size"), [("0", "2"), ("3", "16")])
def test_a_session_of_a_launcher_is_refused_with_what_to_do(session_of, rank, world_size):
    run = session_of(
        {**FILES, **PYPROJECT}, *ASKED, env={"RANK": rank, "WORLD_SIZE": world_size}, report=False
    )

    assert run.status == pytest.ExitCode.USAGE_ERROR
    assert f"a launcher has started this session as one of {world_size} ranks" in run.err
    assert "run pytest --membudget itself without the launcher" in run.err


def test_a_launcher_of_one_process_is_none(session_of):
    run = session_of({**FILES, **PYPROJECT}, *ASKED, "-k", "nothing", env={"RANK": "0", "WORLD_SIZE": "1"})

    assert run.status == pytest.ExitCode.NO_TESTS_COLLECTED
