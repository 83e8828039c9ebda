"""The private parts of torch that the virtual cluster uses, by name and purpose."""

from __future__ import annotations

from typing import Any

#: (module, attribute path, what it is for). tests/devices/traced/cluster/test_private.py has one test a row.
PRIVATE_PARTS: tuple[tuple[str, str, str], ...] = (
    ("torch._C._distributed_c10d", "FakeProcessGroup", "process groups without other processes"),
    ("torch.testing._internal.distributed.fake_pg", "FakeStore", "process groups without other processes"),
    ("torch.distributed.distributed_c10d", "_new_process_group_helper", "process groups of any backend"),
    ("torch.distributed.distributed_c10d", "_store_based_barrier", "process groups without other processes"),
    ("torch.distributed.distributed_c10d", "_world.pg_map", "the backend that a process group is shown with"),
    ("torch._C._distributed_c10d", "ProcessGroup.unbox", "which process group a collective is of"),
    ("torch._C._distributed_c10d", "ReduceOp.RedOpType", "numbers that are the same on all ranks"),
    ("torch._C._distributed_c10d", "_create_work_from_future", "collectives that are done at once"),
    ("torch._C._distributed_c10d", "Work.boxed", "collectives that are done at once"),
    (
        "torch.distributed.distributed_c10d",
        "_resolve_process_group",
        "which process group a collective is of",
    ),
    ("torch.distributed", "Reducer._rebuild_buckets", "DistributedDataParallel's buckets"),
    ("torch.distributed", "Logger.set_runtime_stats_and_log", "DistributedDataParallel's timers"),
    (
        "torch.nn.parallel.distributed",
        "_verify_param_shape_across_processes",
        "DistributedDataParallel without other processes",
    ),
    (
        "torch.distributed.fsdp._fully_shard._fsdp_param",
        "FSDPParam.init_all_gather_outputs",
        "distinguishing gathered parameters from a rank's own",
    ),
    (
        "torch.distributed.fsdp._fully_shard._fsdp_param",
        "FSDPParam.to_sharded_post_forward",
        "distinguishing gathered parameters from a rank's own",
    ),
    (
        "torch.distributed.fsdp._fully_shard._fsdp_param",
        "_chunk_with_empty",
        "a rank's part of a parameter without those of a thousand others",
    ),
    (
        "torch.distributed.tensor._sharding_prop",
        "ShardingPropagator._propagate_tensor_meta_non_cached",
        "keeping tensors of the global shape out of a rank's figures",
    ),
    (
        "torch.distributed.tensor._sharding_prop",
        "ShardingPropagator.propagate_op_sharding_non_cached",
        "computing an optimizer's sharding once for identical parameters",
    ),
    (
        "torch.distributed.tensor._utils",
        "_get_shard_size_and_offsets",
        "where a rank's part of a DTensor begins",
    ),
    ("torch.distributed.tensor._utils", "_get_first_offset", "where a rank's part of a DTensor begins"),
    (
        "torch.distributed.tensor.placement_types",
        "_StridedShard._local_shard_size_and_offset",
        "where a rank's part of a DTensor begins",
    ),
    ("torch._subclasses.fake_tensor", "unset_fake_temporarily", "meshes of real numbers"),
)


def register_fake_backend() -> None:
    """Let the backend "fake" be chosen: collectives that come back at once and move nothing.

    The one place that names the fake process group, which is no public part of torch.
    """
    import torch.testing._internal.distributed.fake_pg  # noqa: F401 - registers the backend


def process_group_of(boxed: Any) -> Any:
    """The process group in a collective operator's argument."""
    from torch._C._distributed_c10d import ProcessGroup

    return ProcessGroup.unbox(boxed)


def reduction_of(boxed: Any) -> str:
    """The name of the reduction in a collective operator's argument: ``SUM``, ``MAX``."""
    from torch._C._distributed_c10d import ReduceOp

    kinds: Any = ReduceOp.RedOpType
    return str(kinds(boxed.op()).name)


def process_group_named(name: Any) -> Any:
    """The process group in a functional collective's argument: its name, or the group itself."""
    from torch.distributed import distributed_c10d

    own: Any = distributed_c10d
    return own._resolve_process_group(name)


def done_work(outputs: list[Any]) -> Any:
    """The work of a collective that is done and has given ``outputs``, as operators return it."""
    import torch
    from torch._C import _distributed_c10d

    own: Any = _distributed_c10d
    future: Any = torch.futures.Future()
    future.set_result(outputs)
    return own._create_work_from_future(future).boxed()
