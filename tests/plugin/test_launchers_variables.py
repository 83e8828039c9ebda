"""What torchrun sets is there for a test with several GPUs; another one has what to write instead.

Or it forms a process group of itself alone.
"""

import pytest

BODIES = """
    import os

    import pytest
    import torch.distributed as dist
    from holding import hold

    @pytest.mark.mem_budget(gib=1)
    def test_reads_local_rank():
        hold(0.5, f"cuda:{os.environ['LOCAL_RANK']}")

    @pytest.mark.mem_budget(gib=1)
    def test_forms_a_group():
        dist.init_process_group("gloo")

    @pytest.mark.mem_budget(gib=1, gpus=1)
    @pytest.mark.parametrize("backend", ["nccl", "gloo", None])
    def test_has_them_with_one(backend):
        names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR")
        assert [os.environ[name] for name in names] == ["0", "0", "1", "1", "0", "localhost"]
        assert not dist.is_initialized()  # as under torchrun
        dist.init_process_group(backend)
        assert (dist.get_rank(), dist.get_world_size()) == (0, 1)
        kept = hold(0.5, f"cuda:{os.environ['LOCAL_RANK']}")

    @pytest.mark.mem_budget(gib=1)
    def test_has_none_unless_it_sets_them(monkeypatch):
        assert not {"RANK", "LOCAL_RANK", "WORLD_SIZE"} & set(os.environ)
        monkeypatch.setenv("LOCAL_RANK", "0")
        kept = hold(0.5, f"cuda:{os.environ['LOCAL_RANK']}")

    @pytest.mark.mem_budget(gib=1, gpus=2)
    def test_has_them_with_two():
        kept = hold(0.5, f"cuda:{os.environ['LOCAL_RANK']}")

    @pytest.mark.mem_budget(gib=1)
    def test_lacks_another_key():
        os.environ["NO_SUCH_VARIABLE"]
    """


SCRIPT = """
    import os

    import torch

    kept = torch.empty(2**20, device=f"cuda:{os.environ['LOCAL_RANK']}")
    """
SCRIPTS = """
    defaults: {gib: 1}
    budgets:
      - {name: launched, gpus: 1, script: one.py}
      - {name: alone, script: one.py}
    """


#: Bodies that form a group of themselves alone, as scripts and tests of one GPU do.
GROUPS = {
    "test_groups.py": """
        import os

        import pytest
        import torch
        import torch.distributed as dist
        from torch import nn
        from torch.distributed.fsdp import fully_shard
        from torch.nn.parallel import DistributedDataParallel

        MIB = 2**20
        HERE = {"init_method": "tcp://127.0.0.1:29511", "rank": 0, "world_size": 1}
        pytestmark = pytest.mark.mem_budget(gib=1)

        def layer():
            return nn.Linear(1024, 1024, bias=False, device="cuda")  # 4 MiB

        def test_ddp_has_its_buckets():
            dist.init_process_group("nccl", **HERE)
            model = layer()
            before = torch.cuda.memory_allocated()
            model = DistributedDataParallel(model, device_ids=[0])
            assert 4 * MIB <= torch.cuda.memory_allocated() - before < 4.1 * MIB
            model(torch.ones(1, 1024, device="cuda")).sum().backward()
            assert (dist.get_world_size(), dist.get_backend()) == (1, "nccl")
            dist.destroy_process_group()

        def test_fsdp_shards_nothing(monkeypatch):
            place = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29512"}
            for name, value in place.items():
                monkeypatch.setenv(name, value)
            dist.init_process_group()
            model = layer()
            before = torch.cuda.memory_allocated()
            fully_shard(model)
            assert torch.cuda.memory_allocated() == before
            model(torch.ones(1, 1024, device="cuda")).sum().backward()

        def test_a_reduced_tensor_is_its_own():
            dist.init_process_group(backend="cpu:gloo,cuda:nccl", **HERE)
            kept = torch.ones(MIB, device="cuda")
            dist.all_reduce(kept)
            assert torch.cuda.max_memory_allocated() == 4 * MIB

        def test_gloo_is_pytorchs():
            dist.init_process_group("gloo", **HERE)
            kept, number = torch.ones(MIB, device="cuda"), torch.tensor(3.0)
            dist.all_reduce(number)
            assert number.item() == 3.0
        """,
    "test_nccl.py": """
        import pytest
        import torch
        import torch.distributed as dist

        @pytest.mark.mem_budget(gib=4, gpu="RTX-3090", metric="device")
        def test_nccl_takes_memory_for_it():
            dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29513", rank=0, world_size=1)
            dist.all_reduce(torch.ones(1, device="cuda"))
        """,
}
FILES = {"test_bodies.py": BODIES, "one.py": SCRIPT, "scripts.membudget.yaml": SCRIPTS, **GROUPS}


@pytest.mark.parametrize("name", ["test_reads_local_rank", "test_forms_a_group", "alone"])
def test_a_launchers_variable_that_is_missing(run, name):
    assert run.outcomes[name] == "failed"
    assert "Write gpus=1 in the mark, or gpus: 1 in the script's entry, and they are set" in run.text(name)


def test_another_variable_has_no_such_advice(run):
    assert "LOCAL_RANK" not in run.text("test_lacks_another_key")


@pytest.mark.parametrize(
    "name",
    [
        "test_has_none_unless_it_sets_them",
        "test_has_them_with_two",
        "launched",
        "test_ddp_has_its_buckets",
        "test_fsdp_shards_nothing",
        "test_a_reduced_tensor_is_its_own",
        "test_gloo_is_pytorchs",
        *(f"test_has_them_with_one[{backend}]" for backend in ("nccl", "gloo", "None")),
    ],
)
def test_where_they_are_set_or_one_process_forms_its_group_the_body_goes_on(run, name):
    assert run.outcomes[name] == "passed", run.text(name)


def test_what_nccl_takes_for_it_is_counted(run):
    """484 MiB were measured for a communicator of one on an RTX 3090 (NVIDIA/nccl#2366)."""
    (estimate,) = run.rows["test_nccl_takes_memory_for_it"]["estimates"]
    assert estimate["components"]["nccl"] / 2**20 == pytest.approx(484, abs=10)


@pytest.mark.parametrize(("rank", "world_size"), [("0", "2"), ("3", "16")])
def test_a_session_of_a_launcher_is_refused_with_what_to_do(session_of, rank, world_size):
    variables = {"RANK": rank, "WORLD_SIZE": world_size}
    run = session_of({"test_bodies.py": BODIES}, "--membudget", env=variables, report=False)

    assert run.status == pytest.ExitCode.USAGE_ERROR
    assert f"a launcher has started this session as one of {world_size} ranks" in run.err
    assert "run pytest --membudget itself without the launcher" in run.err


def test_a_launcher_of_one_process_is_none(session_of):
    variables = {"RANK": "0", "WORLD_SIZE": "1"}
    run = session_of({"test_bodies.py": BODIES}, "--membudget", "-k", "nothing", env=variables)

    assert run.status == pytest.ExitCode.NO_TESTS_COLLECTED
