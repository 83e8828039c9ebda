"""Ranks measured as they are on cards: a process and a card each, PyTorch's NCCL groups.

The stand-in's NCCL moves nothing, so no rank hears what another says: DistributedDataParallel is told not to
compare its parameters first. Ranks that fail: ``tests/worker/test_ranks.py``.
"""

import pytest

from pytest_membudget.devices.torch_parts import torch_release

pytestmark = pytest.mark.slow

MIB = 2**20

BODIES = """
    import os
    import time
    import pytest
    from holding import hold

    def is_measured():
        return "CUDA_VISIBLE_DEVICES" in os.environ  # which a worker for estimates has not

    def steps(model):
        import torch
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            model(torch.randn(64, 2048, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            if is_measured():  # NCCL's watchdog, which looks every 0.1 s, lets go of old buckets
                time.sleep(1)

    def layers():
        import torch
        return torch.nn.Sequential(torch.nn.Linear(2048, 2048), torch.nn.Linear(2048, 2048)).cuda()

    @pytest.mark.mem_budget(gib=1, gpus=2)
    def test_replicas():
        from torch.nn.parallel import DistributedDataParallel
        steps(DistributedDataParallel(layers(), init_sync=False))

    @pytest.mark.mem_budget(gib=1, gpus=2)
    def test_shards():
        from torch.distributed.fsdp import fully_shard
        model = layers()
        for layer in model:
            fully_shard(layer)
        fully_shard(model)
        steps(model)

    @pytest.mark.mem_budget(gib=1, gpus=2)
    def test_shards_on_the_host():
        import torch
        import torch.distributed as dist
        from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard
        shown = [dist.get_backend()]
        dist.init_process_group("cpu:gloo,cuda:nccl")
        shown.append(dist.get_backend())
        assert shown == ["nccl", "cpu:gloo,cuda:nccl"]
        model = torch.nn.Sequential(torch.nn.Linear(2048, 2048), torch.nn.Linear(2048, 2048))
        for layer in model:
            fully_shard(layer, offload_policy=CPUOffloadPolicy())
        fully_shard(model, offload_policy=CPUOffloadPolicy())
        model(torch.randn(64, 2048, device="cuda")).sum().backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # on the host, by gloo
        assert norm.full_tensor().device.type == "cpu"

    @pytest.mark.mem_budget(gib=1, gpus=2, components={"inputs": 0.875})
    def test_rank_1_is_over():
        kept = hold(1.25 if is_measured() and os.environ["RANK"] == "1" else 0.5)

    @pytest.mark.mem_budget(gib=1, gpus=3)
    def test_more_gpus_than_there_are():
        kept = hold(0.5)

    @pytest.mark.mem_budget(gib=1)
    def test_one_gpu():
        assert "RANK" not in os.environ
        kept = hold(0.5)
    """


@pytest.fixture(scope="module")
def run(measured_session):
    return measured_session({"test_budgets.py": BODIES}, "--membudget-measure=auto", cards=2)


def pairs(run, name):
    """The estimates of ranks and the measurements of the same ranks."""
    row = run.rows[name]
    measured = {report["rank"]: report for report in row["measurements"]}
    return [(estimate, measured[estimate["rank"]]) for estimate in row["estimates"]]


@pytest.mark.parametrize("name", ["test_shards", "test_shards_on_the_host"])
def test_every_rank_is_measured_as_it_was_estimated(run, name):
    assert run.outcomes[name] == "passed", run.out
    assert [one["rank"] for one in run.rows[name]["measurements"]] == [0, 1]
    for estimate, measured in pairs(run, name):
        for metric in ("allocated", "reserved"):
            assert measured["peak"][metric] == estimate["peak"][metric]
        assert measured["components"] == estimate["components"]


def test_replicas_are_estimated_with_the_buckets_that_a_late_watchdog_would_still_hold(run):
    """In the measurement it is not late: one bucket of two layers' gradients less, numbers of 4 bytes."""
    assert run.outcomes["test_replicas"] == "passed", run.out
    for estimate, measured in pairs(run, "test_replicas"):
        of_one = 2 * (2048 * 2048 + 2048) * 4 * (torch_release() < (2, 15))  # which waits for no watchdog
        assert estimate["peak"]["allocated"] - measured["peak"]["allocated"] == of_one
        assert estimate["components"]["collectives"] - measured["components"]["collectives"] == of_one


def test_buffers_of_collectives_are_distinguished_from_other_memory(run):
    _, measured = pairs(run, "test_replicas")[0]

    # DistributedDataParallel's buckets hold the gradients of two layers, numbers of 4 bytes
    assert measured["components"]["collectives"] == 2 * (2048 * 2048 + 2048) * 4


def test_a_rank_that_is_over_budget_fails_the_test_and_is_named(run):
    row = run.rows["test_rank_1_is_over"]

    assert run.outcomes["test_rank_1_is_over"] == "failed"
    assert row["reason"] == "measured on CUDA: rank 1 of 2: 0.25 GiB over its budget of 1 GiB"
    assert row["rank"] == 1
    lines = [" ".join(line.split()) for line in run.text("test_rank_1_is_over").splitlines()]
    start = lines.index("Ranks by their peaks (2 of 2 measured):")
    assert lines[start + 1 : start + 3] == ["rank 1 1.25 GiB", "rank 0 0.50 GiB"]
    assert any(line.startswith("Peak memory of rank 1 of 2") for line in lines)


def test_a_test_for_one_gpu_is_no_rank(run):
    assert run.outcomes["test_one_gpu"] == "passed"
    assert [one["peak"]["allocated"] for one in run.rows["test_one_gpu"]["measurements"]] == [2**29]


def test_more_gpus_than_there_are_are_not_measured_and_nothing_fails(run):
    row = run.rows["test_more_gpus_than_there_are"]

    assert run.outcomes["test_more_gpus_than_there_are"] == "passed"
    assert row["not_measured"] == "2 CUDA devices, and gpus=3"


def test_the_summary_counts_them_as_any_other(run):
    (line,) = [line for line in run.summary if " estimated (" in line]

    assert line.endswith(", 5 measured, 1 not measured")
    assert "not measured: 1 (2 CUDA devices, and gpus=3)" in run.summary
