"""DistributedDataParallel's reducer, which is C++: it writes its numbers to host tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten


class _RealNumbers(TorchDispatchMode):
    """Host tensors of whole numbers are real, and what all ranks agree on is what this one says."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func is aten.empty.memory_format and _is_host_number(kwargs):
            with unset_fake_temporarily():
                return func(*args, **kwargs)
        if func is aten.copy_.default and not isinstance(args[0], FakeTensor):
            return args[0]
        return func(*args, **kwargs)


def _is_host_number(kwargs: Mapping[str, Any]) -> bool:
    device = kwargs.get("device")
    return kwargs.get("dtype") is torch.int32 and (device is None or torch.device(device).type == "cpu")


def install_reducers() -> None:
    """Let ``DistributedDataParallel`` be made, and its buckets be rebuilt after the first backward.

    The ranks' parameters are not compared with each other: there is one rank.
    """
    import torch.nn.parallel.distributed as ddp

    own: Any = ddp
    own._verify_param_shape_across_processes = lambda *args, **kwargs: None
    c10d: Any = dist
    logger = c10d.Logger
    logger.set_runtime_stats_and_log = lambda self: None  # it has timed nothing
    kind = c10d.Reducer
    # It counts the iterations, whose times CUDA events record. A CUDA build makes such events, which fail
    # without a driver; at iteration 0 it makes none (Reducer::should_collect_runtime_stats, reducer.cpp).
    kind.prepare_for_forward = lambda self: None
    original = kind._rebuild_buckets

    def rebuild(reducer: Any) -> Any:
        with _RealNumbers():  # type: ignore[no-untyped-call]
            return original(reducer)

    kind._rebuild_buckets = rebuild
