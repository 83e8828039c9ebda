"""The private parts of torch that ranks on the stand-in rest on, by name and by what they are for."""

#: (module, attribute path, what it is for)
PARTS: tuple[tuple[str, str, str], ...] = (
    ("torch.library", "get_kernel", "PyTorch's own collectives, called from the functions around them"),
    ("torch._C", "_dispatch_has_kernel_for_dispatch_key", "the names of all collectives"),
    ("torch._C", "_dispatch_tls_is_dispatch_key_excluded", "which lines ask for the rank"),
    ("torch._C._distributed_c10d", "ProcessGroup.unbox", "which process group a collective is of"),
    ("torch._C._distributed_c10d", "ProcessGroup.split_group", "how many ranks a part of a group has"),
    ("torch._C._distributed_c10d", "ProcessGroup._wait_for_pending_works", "what collectives hold"),
    ("torch.autograd.graph", "_engine_run_backward", "when they let go of it"),
    ("torch._C._distributed_c10d", "ReduceOp.RedOpType", "numbers that are the same on all ranks"),
    ("torch.testing._internal.distributed.fake_pg", "FakeStore", "process groups of the host"),
    ("torch.distributed.distributed_c10d", "_new_process_group_helper", "process groups of any backend"),
    (
        "torch.distributed.distributed_c10d",
        "_create_process_group_wrapper",
        "process groups whose calls are compared",
    ),
    ("torch.distributed.distributed_c10d", "_store_based_barrier", "process groups without other processes"),
    ("torch.distributed.distributed_c10d", "_world.pg_map", "the backend that a process group is shown with"),
    ("torch.distributed", "Reducer._rebuild_buckets", "DistributedDataParallel's buckets"),
    (
        "torch.distributed.fsdp._fully_shard._fsdp_param",
        "FSDPParam.alloc_all_gather_outputs",
        "distinguishing gathered parameters from a rank's own",
    ),
    (
        "torch.distributed.fsdp._fully_shard._fsdp_param",
        "FSDPParam.to_sharded_post_forward",
        "distinguishing gathered parameters from a rank's own",
    ),
    (
        "torch.distributed.fsdp._fully_shard._fsdp_param_group",
        "FSDPParamGroup.post_backward",
        "gradients of gathered parameters",
    ),
)
