"""A test without ``gpus`` may form a process group of itself alone, as scripts and tests of one GPU do."""

import pytest

FILES = {
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


@pytest.mark.parametrize(
    "name",
    [
        "test_ddp_has_its_buckets",
        "test_fsdp_shards_nothing",
        "test_a_reduced_tensor_is_its_own",
        "test_gloo_is_pytorchs",
    ],
)
def test_one_process_forms_its_group(run, name):
    assert run.outcomes[name] == "passed", run.text(name)


def test_what_nccl_takes_for_it_is_counted(run):
    """484 MiB were measured for a communicator of one on an RTX 3090 (NVIDIA/nccl#2366)."""
    (estimate,) = run.rows["test_nccl_takes_memory_for_it"]["estimates"]
    assert estimate["components"]["nccl"] / 2**20 == pytest.approx(484, abs=10)
