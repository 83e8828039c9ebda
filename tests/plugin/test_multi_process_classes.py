"""What starts processes by PyTorch's means, with ``gpus``: each rank runs one's body, and starts none."""

import pytest

CLASSES = """
    import pytest
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
    from torch.testing._internal.common_distributed import MultiProcessTestCase, skip_if_lt_x_gpu

    class Processes(MultiProcessTestCase):
        def setUp(self):
            super().setUp()
            self._spawn_processes()

        @property
        def world_size(self):
            return 2

    @pytest.mark.mem_budget(gpus=2)
    class TestTwo(Processes):
        def gathered(self):
            store = dist.FileStore(self.file_name, self.world_size)
            dist.init_process_group("nccl", store=store, rank=self.rank, world_size=self.world_size)
            part = torch.ones(256, 1024, device="cuda")
            whole = [torch.empty_like(part) for _ in range(self.world_size)]
            dist.all_gather(whole, part)

        @skip_if_lt_x_gpu(2)
        def test_peak(self):
            self.gathered()
            # three tensors of 1 MiB and, where the backend has one, the flat buffer of the parts
            self.assertIn(torch.cuda.max_memory_allocated() // 2**20, (3, 5))

        def test_too_much(self):
            self.gathered()
            self.assertLess(torch.cuda.max_memory_allocated(), 2**20)

        @skip_if_lt_x_gpu(4)
        def test_needs_more(self):
            self.gathered()

    def spawned(rank, mebibytes):
        dist.init_process_group("nccl", init_method="file://unused", rank=rank, world_size=2)
        kept = torch.empty(mebibytes << 20 << rank, dtype=torch.uint8, device="cuda")
        dist.destroy_process_group()

    @pytest.mark.mem_budget(gpus=2)
    @pytest.mark.parametrize("join", [True, False])
    def test_spawn(join):
        context = mp.spawn(spawned, args=(3,), nprocs=2, join=join)
        while context is not None and not context.join():
            pass
        mp.spawn(spawned, args=(1,), nprocs=2)  # the next, as in a loop over configurations

    @pytest.mark.mem_budget(gpus=2)
    def test_remote_calls():
        from torch.distributed import rpc

        rpc.init_rpc(f"rank{dist.get_rank()}", rank=dist.get_rank(), world_size=2)
        kept = torch.empty(2**20, dtype=torch.uint8, device="cuda")
        try:
            rpc.rpc_sync("rank1", torch.empty, args=(2**20,))
        except Exception:
            pass
        finally:
            rpc.shutdown()

    @pytest.mark.mem_budget
    def test_bare_spawn():
        mp.spawn(spawned, args=(3,), nprocs=2)

    @pytest.mark.mem_budget
    class TestBare(Processes):
        def test_peak(self):
            torch.ones(1, device="cuda")
    """


FILES = {"test_it.py": CLASSES}


@pytest.fixture(scope="module")
def rows(run):
    return {row["nodeid"].removeprefix("test_it.py::"): row for row in run.report["tests"]}


def test_each_rank_runs_the_body(rows):
    row = rows["TestTwo::test_peak"]

    assert row["verdict"] == "unset", row["reason"]
    assert [report["rank"] for report in row["estimates"]] == [0, 1]


def test_an_assert_of_a_rank_fails_the_test_with_its_own_traceback(run, rows):
    assert rows["TestTwo::test_too_much"]["raised"]
    assert "self.assertLess(torch.cuda.max_memory_allocated(), 2**20)" in run.text("test_too_much")
    assert "unittest/case.py" not in run.text("test_too_much")


def test_a_skip_in_a_process_is_one(rows):
    assert rows["TestTwo::test_needs_more"]["verdict"] == "skipped"
    assert "Need at least 4" in rows["TestTwo::test_needs_more"]["reason"]


@pytest.mark.parametrize("joined", [True, False])
def test_each_rank_runs_what_would_be_spawned(rows, joined):
    reports = rows[f"test_spawn[{joined}]"]["estimates"]

    assert [report["peak"]["allocated"] for report in reports] == [3 * 2**20, 6 * 2**20]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        # though the test goes on: nobody waits for the other ranks to begin, but nobody answers either
        ("test_remote_calls", "torch.distributed.rpc.rpc_sync: a rank is estimated without the others"),
        ("test_bare_spawn", "torch.multiprocessing.spawn starts 2 processes: write gpus=2 in its mark"),
        ("TestBare::test_peak", "TestBare starts 2 processes: write gpus=2 in its mark"),
    ],
)
def test_what_cannot_be_run_rank_by_rank_is_an_error_that_says_why(rows, name, said):
    assert rows[name]["verdict"] == "error"
    assert said in rows[name]["reason"]
